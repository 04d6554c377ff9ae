-- A run: what one task changed in one workspace.
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    task TEXT NOT NULL,
    began INTEGER NOT NULL
) STRICT;
CREATE INDEX run_of_workspace ON run (workspace, id);

-- A change of a file, in order. `before_digest` is null where there was no file; `lost` says why its bytes are not here.
CREATE TABLE change (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    before_digest BLOB,
    before_bytes BLOB,
    mode INTEGER,
    lost TEXT,
    after_digest BLOB NOT NULL,
    after_len INTEGER NOT NULL,
    directories INTEGER NOT NULL
) STRICT;
CREATE INDEX change_of_run ON change (run, id);

-- Something a run did whose effects nobody knows: a command.
CREATE TABLE deed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    what TEXT NOT NULL
) STRICT;
CREATE INDEX deed_of_run ON deed (run, id);
