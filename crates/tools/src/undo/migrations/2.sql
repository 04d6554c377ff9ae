-- A workspace is a directory, told from others by more than its path. What is kept of each is counted.
CREATE TABLE workspace (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The path that it was last seen under, as it is shown.
    path TEXT NOT NULL,
    -- What tells the directory from others. Null where step 1 kept it, which knew the path alone.
    device INTEGER,
    inode INTEGER,
    born TEXT,
    -- What its runs count, how many there are, and how many were forgotten to make room.
    bytes INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX workspace_by_inode ON workspace (inode);
CREATE INDEX workspace_by_path ON workspace (path);

-- What all workspaces count.
CREATE TABLE total (only INTEGER PRIMARY KEY CHECK (only = 0), bytes INTEGER NOT NULL) STRICT;
INSERT INTO total VALUES (0, 0);

DROP INDEX run_of_workspace;
DROP INDEX change_of_run;
DROP INDEX deed_of_run;
ALTER TABLE run RENAME TO old_run;
ALTER TABLE change RENAME TO old_change;
ALTER TABLE deed RENAME TO old_deed;

-- A run: what one task changed in one workspace. `bytes` and `entries` are what its changes and deeds come to.
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL REFERENCES workspace (id),
    task TEXT NOT NULL,
    began INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    entries INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX run_of_workspace ON run (workspace, id);
CREATE INDEX run_by_age ON run (began, id);

-- A change of a file, in order. `before_digest` is null where there was no file. `before_bytes` is null too where the change
-- before it of the same run and file left the same: that one's are enough. `lost` says why a name or bytes were not kept,
-- which happens in rows of step 1 alone. The bytes come last, so that the rest is read without them.
CREATE TABLE change (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    path BLOB NOT NULL,
    before_digest BLOB,
    mode INTEGER,
    lost TEXT,
    after_digest BLOB NOT NULL,
    after_len INTEGER NOT NULL,
    directories INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    before_bytes BLOB
) STRICT;
CREATE INDEX change_of_file ON change (run, path, id);

-- Something a run did whose effects nobody knows: a command.
CREATE TABLE deed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    what TEXT NOT NULL,
    cost INTEGER NOT NULL
) STRICT;
CREATE INDEX deed_of_run ON deed (run, id);

CREATE TRIGGER change_comes AFTER INSERT ON change BEGIN
    UPDATE run SET bytes = bytes + new.cost, entries = entries + 1 WHERE id = new.run;
END;
CREATE TRIGGER change_goes AFTER DELETE ON change BEGIN
    UPDATE run SET bytes = bytes - old.cost, entries = entries - 1 WHERE id = old.run;
END;
CREATE TRIGGER deed_comes AFTER INSERT ON deed BEGIN
    UPDATE run SET bytes = bytes + new.cost, entries = entries + 1 WHERE id = new.run;
END;
CREATE TRIGGER deed_goes AFTER DELETE ON deed BEGIN
    UPDATE run SET bytes = bytes - old.cost, entries = entries - 1 WHERE id = old.run;
END;
CREATE TRIGGER run_comes AFTER INSERT ON run BEGIN
    UPDATE workspace SET bytes = bytes + new.bytes, runs = runs + 1 WHERE id = new.workspace;
END;
CREATE TRIGGER run_grows AFTER UPDATE OF bytes ON run BEGIN
    UPDATE workspace SET bytes = bytes + new.bytes - old.bytes WHERE id = new.workspace;
END;
CREATE TRIGGER run_goes AFTER DELETE ON run BEGIN
    UPDATE workspace SET bytes = bytes - old.bytes, runs = runs - 1 WHERE id = old.workspace;
END;
CREATE TRIGGER workspace_grows AFTER UPDATE OF bytes ON workspace BEGIN
    UPDATE total SET bytes = bytes + new.bytes - old.bytes;
END;

-- What step 1 kept. 256 is what a row counts beside its texts and bytes: `ROW` in bounds.rs.
INSERT INTO workspace (path) SELECT DISTINCT workspace FROM old_run;
INSERT INTO run (id, workspace, task, began, bytes)
    SELECT old_run.id, workspace.id, task, began, 256 + length(CAST(task AS BLOB))
    FROM old_run JOIN workspace ON workspace.path = old_run.workspace;
INSERT INTO change
    SELECT id, run, CAST(path AS BLOB), before_digest, mode,
        -- Bytes that are no text became U+FFFD in it: which file it was is not known.
        CASE WHEN instr(path, char(65533)) > 0 THEN 'its name was not kept as it is' ELSE lost END,
        after_digest, after_len, directories,
        256 + length(CAST(path AS BLOB)) + ifnull(length(before_bytes), 0), before_bytes
    FROM old_change ORDER BY id;
INSERT INTO deed SELECT id, run, what, 256 + length(CAST(what AS BLOB)) FROM old_deed ORDER BY id;

-- No number is given out twice.
DELETE FROM sqlite_sequence WHERE name IN ('run', 'change', 'deed');
INSERT INTO sqlite_sequence (name, seq)
    SELECT substr(name, 5), seq FROM sqlite_sequence WHERE name IN ('old_run', 'old_change', 'old_deed');
DROP TABLE old_deed;
DROP TABLE old_change;
DROP TABLE old_run;
