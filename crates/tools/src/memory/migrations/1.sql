-- One row a memory; `data` is the JSON of structured ones, `content` is what is searched.
CREATE TABLE memory (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('note', 'entity', 'relationship', 'observation')),
    content TEXT NOT NULL,
    tags TEXT NOT NULL DEFAULT '[]',
    data TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);

CREATE VIRTUAL TABLE memory_words USING fts5 (
    content,
    tags,
    content = 'memory',
    content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    INSERT INTO memory_words (rowid, content, tags) VALUES (new.id, new.content, new.tags);
END;

CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
    INSERT INTO memory_words (memory_words, rowid, content, tags) VALUES ('delete', old.id, old.content, old.tags);
END;
