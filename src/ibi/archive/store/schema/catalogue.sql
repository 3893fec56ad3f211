-- The present schema of the catalogue. The migrations lead to it from every older schema; a test compares them.
-- No program reads this file. How SQL is written: decision 0028.

-- One row for each item, so that an item has one state and is never both original and copy (ARC-04).
CREATE TABLE item (
    number INTEGER NOT NULL,
    rep VARCHAR,  -- as spelled; at least one of rep and ibip is set
    ibip VARCHAR,  -- as spelled
    aliases VARCHAR,  -- older opaque ids, separated by blanks
    "key" VARCHAR,  -- the depositor's own key
    state VARCHAR NOT NULL,
    content_type VARCHAR NOT NULL,
    timestamp VARCHAR NOT NULL,
    language VARCHAR,
    transferable BOOLEAN NOT NULL,
    url VARCHAR,  -- of a linked item
    target VARCHAR,  -- name of the file served by default
    file_list_public BOOLEAN NOT NULL,
    file_count INTEGER NOT NULL,
    next_edition VARCHAR,  -- the forms of an IBI, as in all links: rep x ibip y
    translations VARCHAR,  -- JSON: forms by language
    metadata_item VARCHAR,
    metadata VARCHAR,  -- JSON: Dublin Core by element
    formats VARCHAR,  -- JSON: URLs of metadata by format
    thanks INTEGER DEFAULT '0' NOT NULL,  -- acknowledgments counted
    access VARCHAR NOT NULL DEFAULT 'open' CONSTRAINT item_access CHECK (access IN ('open', 'embargoed', 'restricted', 'closed')),
    embargo VARCHAR,  -- the day on which an embargoed item becomes open
    rights VARCHAR,
    licence VARCHAR,
    reason VARCHAR,  -- why it was removed
    unsettled VARCHAR,  -- the moment of the backup from which an original was restored, until it is settled
    institution VARCHAR,  -- JSON: the name of that where it was deposited, by language
    replacement VARCHAR,  -- of a removed item: the one that takes its place
    PRIMARY KEY (number),
    CONSTRAINT item_is_named CHECK (rep IS NOT NULL OR ibip IS NOT NULL),
    CONSTRAINT item_state CHECK (state IN ('Original', 'Copy', 'Deleted')),
    CONSTRAINT item_content_type CHECK (content_type IN ('Data', 'Metadata')),
    UNIQUE ("key")
);
CREATE INDEX item_removed ON item (number) WHERE state = 'Deleted';
CREATE INDEX item_next_edition ON item (next_edition) WHERE next_edition IS NOT NULL;
CREATE INDEX item_unsettled ON item (number) WHERE unsettled IS NOT NULL;

-- One row for each name, so that no two items share a name (ARC-01), and both forms find the item (ARC-17).
CREATE TABLE name (
    name VARCHAR NOT NULL,  -- canonical; older opaque ids keep their case
    item INTEGER NOT NULL,
    main BOOLEAN NOT NULL,  -- whether it is the name by which items are sorted
    PRIMARY KEY (name),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX name_of_item ON name (item);

-- The manifest: a file that is not listed here is not served.
CREATE TABLE file (
    item INTEGER NOT NULL,
    name VARCHAR NOT NULL,  -- percent-encoded, as it was given
    size INTEGER NOT NULL,
    sha256 VARCHAR NOT NULL,
    media_type VARCHAR NOT NULL,
    staged VARCHAR,  -- its name in the staging folder, until it is moved to its place
    PRIMARY KEY (item, name),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX file_staged ON file (staged) WHERE staged IS NOT NULL;

CREATE TABLE leaving (
    path BLOB NOT NULL,  -- below DIR/col: a file that is no longer listed and is to be removed
    PRIMARY KEY (path)
) WITHOUT ROWID;

-- The history of the items; nothing is ever deleted from it.
CREATE TABLE event (
    item INTEGER NOT NULL,
    number INTEGER NOT NULL,  -- 1, 2, … for each item
    moment VARCHAR NOT NULL,
    who VARCHAR NOT NULL,
    what VARCHAR NOT NULL,
    detail VARCHAR,  -- JSON
    feed INTEGER,  -- the number of its change, which it keeps; NULL for events before version 6
    PRIMARY KEY (item, number),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX event_feed ON event (feed) WHERE feed IS NOT NULL;

-- The log of changes: `number` increases in the order in which transactions commit.
CREATE TABLE changed (
    number INTEGER NOT NULL,
    word VARCHAR NOT NULL,  -- 16 hexadecimal digits, drawn anew for each change
    moment INTEGER NOT NULL,  -- POSIX seconds
    rules INTEGER NOT NULL,  -- a digest of the settings by which answers were made since; 0: of none yet
    item INTEGER,  -- NULL: anything may be different
    PRIMARY KEY (number)
);
CREATE INDEX changed_anything ON changed (number) WHERE item IS NULL;

-- What audits found in the stored files.
CREATE TABLE fixity (
    item INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,  -- the digest that was listed when it was read
    read VARCHAR NOT NULL,  -- when it was last read
    good VARCHAR,  -- when it was last found good
    fault VARCHAR,  -- a value of tables.fixity.FileFault; NULL while it is good
    PRIMARY KEY (item, name),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX fixity_fault ON fixity (item) WHERE fault IS NOT NULL;

-- How far each audit has come.
CREATE TABLE audit (
    walk VARCHAR NOT NULL,  -- which audit: that of the command, or of the running Archive
    begun FLOAT NOT NULL,  -- POSIX seconds
    item INTEGER NOT NULL,  -- item and name of the last file that was read
    name VARCHAR NOT NULL,
    done INTEGER NOT NULL,  -- bytes read so far
    ended BOOLEAN NOT NULL,
    PRIMARY KEY (walk)
) WITHOUT ROWID;

-- The items that have or had files. Beside its files, an item has an item.json with all its facts.
CREATE TABLE sidecar (
    item INTEGER NOT NULL,
    owed INTEGER NOT NULL,  -- changes that are not in its item.json yet
    PRIMARY KEY (item),
    FOREIGN KEY(item) REFERENCES item (number)
);
CREATE INDEX sidecar_owed ON sidecar (item) WHERE owed > 0;

CREATE TABLE thanked (
    url_key VARCHAR NOT NULL,  -- identity of an acknowledgment, which counts once; or "<URL key> in all"
    expires INTEGER NOT NULL,  -- POSIX seconds; later the acknowledgment would be refused anyway
    readers INTEGER DEFAULT '0' NOT NULL,  -- in the row "<URL key> in all": the readers counted
    PRIMARY KEY (url_key)
) WITHOUT ROWID;
CREATE INDEX thanked_expires ON thanked (expires);

-- Where copies come from.
CREATE TABLE copied (
    item INTEGER NOT NULL,
    archive VARCHAR NOT NULL,  -- root URL of the Archive of the original
    service VARCHAR NOT NULL,  -- IBI of its Archive service
    url VARCHAR NOT NULL,  -- of the file, if it was copied from a server that describes no items; else ""
    original VARCHAR NOT NULL,  -- timestamp of the original when it was last fetched
    tag VARCHAR NOT NULL,  -- its ETag at that time
    compared BOOLEAN NOT NULL,  -- whether the original's Archive gave digests to compare with
    checked VARCHAR NOT NULL,  -- when a comparison with the original was last tried
    since VARCHAR NOT NULL,  -- since when the copy is not known to equal the original; "" while it does
    problem VARCHAR,  -- JSON: why it is not known
    private BOOLEAN NOT NULL,  -- whether the original may be at an address of a private network
    due VARCHAR DEFAULT '~' NOT NULL,  -- what is to be compared soon, as `tables.copies` says; empty: nothing
    PRIMARY KEY (item),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX copied_checked ON copied (checked);
CREATE INDEX copied_from ON copied (archive, service, private);
CREATE INDEX copied_due ON copied (archive, service) WHERE due != '';

-- The Archives of the originals of copies: all that they have changed up to a position is in `copied.due`.
CREATE TABLE followed (
    archive VARCHAR NOT NULL,  -- root URL
    service VARCHAR NOT NULL,  -- IBI of its Archive service
    position VARCHAR NOT NULL,
    PRIMARY KEY (archive, service)
) WITHOUT ROWID;

-- The outgoing hand-overs of originals.
CREATE TABLE giving (
    id VARCHAR NOT NULL,
    item INTEGER NOT NULL,
    peer VARCHAR NOT NULL,
    address VARCHAR NOT NULL,  -- root URL of the receiver
    passage VARCHAR NOT NULL,  -- the credential with which the receiver fetches the item
    proof VARCHAR NOT NULL,  -- the proof that makes the receiver the owner
    fingerprint VARCHAR NOT NULL,  -- of the item when this Archive stepped back
    service VARCHAR NOT NULL,  -- IBI of the receiver's Archive service, once this Archive has stepped back
    remove BOOLEAN NOT NULL,
    who VARCHAR NOT NULL,
    stage VARCHAR NOT NULL,  -- a value of handover.GiverStage
    moment VARCHAR NOT NULL,
    problem VARCHAR,  -- JSON: what went wrong last
    PRIMARY KEY (id),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX giving_of_item ON giving (item);
CREATE INDEX giving_stage ON giving (stage);

-- The incoming hand-overs of originals.
CREATE TABLE receiving (
    id VARCHAR NOT NULL,
    item INTEGER,  -- set once the item is held here
    giver VARCHAR NOT NULL,  -- name of its token
    address VARCHAR NOT NULL,  -- root URL of the giver
    seal VARCHAR NOT NULL,  -- SHA-256 of the proof
    fingerprint VARCHAR NOT NULL,  -- of the item as it was fetched
    history VARCHAR NOT NULL,  -- JSON: the earlier history of the item, as the giver reported it
    stage VARCHAR NOT NULL,  -- a value of handover.ReceiverStage
    moment VARCHAR NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;

-- The state of the Archive at each of its resolvers.
CREATE TABLE membership (
    resolver VARCHAR NOT NULL,  -- its root URL
    state VARCHAR NOT NULL,  -- a value of tables.memberships.MembershipStanding
    since VARCHAR NOT NULL,
    heard VARCHAR,  -- when the resolver last answered
    problem VARCHAR,  -- JSON: what went wrong last
    PRIMARY KEY (resolver)
) WITHOUT ROWID;

-- How far the records of other repositories have been harvested.
CREATE TABLE harvested (
    repository VARCHAR NOT NULL,  -- base URL of an OAI-PMH repository
    part VARCHAR NOT NULL,  -- its set, empty for all records
    format VARCHAR NOT NULL,  -- metadataPrefix
    token VARCHAR NOT NULL,  -- the resumption token of an interrupted list
    begun VARCHAR NOT NULL,  -- when that list began, by the clock of the repository
    newest VARCHAR NOT NULL,  -- the newest datestamp in that list so far
    since VARCHAR NOT NULL,  -- the datestamp from which the next list is requested
    PRIMARY KEY (repository, part, format)
) WITHOUT ROWID;

-- How often items were looked at and fetched, by the rules of COUNTER.
CREATE TABLE visits (
    item INTEGER NOT NULL,
    month VARCHAR NOT NULL,  -- 2026-11
    country VARCHAR NOT NULL,  -- two letters; empty if it is unknown
    investigations INTEGER NOT NULL,
    unique_investigations INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    unique_requests INTEGER NOT NULL,
    PRIMARY KEY (item, month, country),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;

CREATE TABLE visit_mark (
    mark BLOB NOT NULL,  -- keyed hash of a visit that must not be counted twice
    until FLOAT NOT NULL,  -- POSIX seconds: when the mark expires, at most an hour later
    PRIMARY KEY (mark)
) WITHOUT ROWID;
CREATE INDEX visit_mark_until ON visit_mark (until);

CREATE TABLE visit_key (
    day VARCHAR NOT NULL,
    content BLOB NOT NULL,  -- the key of the hashes of this day
    PRIMARY KEY (day)
) WITHOUT ROWID;

-- Every change of an item adds to its history, and so marks its item.json as outdated.
CREATE TRIGGER sidecar_of_file AFTER INSERT ON file
    BEGIN INSERT INTO sidecar (item, owed) VALUES (new.item, 1)
    ON CONFLICT (item) DO UPDATE SET owed = owed + 1; END;
CREATE TRIGGER sidecar_of_event AFTER INSERT ON event
    BEGIN UPDATE sidecar SET owed = owed + 1 WHERE item = new.item; END;

-- Changes that no program may make to a catalogue, neither this one nor another (ARC-07, ARC-08, GEN-05).
CREATE TRIGGER removed_for_ever BEFORE UPDATE OF state ON item
    WHEN old.state = 'Deleted' AND new.state <> 'Deleted'
    BEGIN SELECT RAISE(ABORT, 'law: a removed item stays removed'); END;
CREATE TRIGGER original_stays BEFORE UPDATE OF state ON item
    WHEN old.state = 'Original' AND new.state = 'Copy' AND NOT old.transferable
    BEGIN SELECT RAISE(ABORT, 'law: this original is not transferable'); END;
CREATE TRIGGER item_stays BEFORE DELETE ON item
    BEGIN SELECT RAISE(ABORT, 'law: no item is forgotten'); END;
CREATE TRIGGER name_stays BEFORE DELETE ON name
    BEGIN SELECT RAISE(ABORT, 'law: no name is taken away'); END;
CREATE TRIGGER name_keeps_its_item BEFORE UPDATE ON name
    WHEN new.name <> old.name OR new.item <> old.item
    BEGIN SELECT RAISE(ABORT, 'law: a name means one item for ever'); END;
CREATE TRIGGER event_stays BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'law: history is not forgotten'); END;
