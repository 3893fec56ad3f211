-- The schema of the catalogue as it is now. The migrations lead to it, from every older one; a test compares the two.
-- No program reads this file. How SQL is written: decision 0028.

-- One row an item: so it has one state, and is never both original and copy (ARC-04).
CREATE TABLE item (
    number INTEGER NOT NULL,
    rep VARCHAR,  -- as spelled; at least one of rep and ibip is there
    ibip VARCHAR,  -- as spelled
    aliases VARCHAR,  -- older opaque ids, blanks between
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
    next_edition VARCHAR,  -- forms of an IBI, as all links: rep x ibip y
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
    unsettled VARCHAR,  -- of an original: the moment of the backup that it came back from, until it is settled
    PRIMARY KEY (number),
    CONSTRAINT item_is_named CHECK (rep IS NOT NULL OR ibip IS NOT NULL),
    CONSTRAINT item_state CHECK (state IN ('Original', 'Copy', 'Deleted')),
    CONSTRAINT item_content_type CHECK (content_type IN ('Data', 'Metadata')),
    UNIQUE ("key")
);
CREATE INDEX item_removed ON item (number) WHERE state = 'Deleted';
CREATE INDEX item_next_edition ON item (next_edition) WHERE next_edition IS NOT NULL;
CREATE INDEX item_unsettled ON item (number) WHERE unsettled IS NOT NULL;

-- One row a name: so no two items share one (ARC-01), and both forms find the item (ARC-17).
CREATE TABLE name (
    name VARCHAR NOT NULL,  -- canonical; older opaque ids by exact case
    item INTEGER NOT NULL,
    main BOOLEAN NOT NULL,  -- whether it is the one that items are sorted by
    PRIMARY KEY (name),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX name_of_item ON name (item);

-- The manifest: what is not listed here is not served.
CREATE TABLE file (
    item INTEGER NOT NULL,
    name VARCHAR NOT NULL,  -- percent-encoded, as it was given
    size INTEGER NOT NULL,
    sha256 VARCHAR NOT NULL,
    media_type VARCHAR NOT NULL,
    staged VARCHAR,  -- its name in staging, until it is moved to its place
    PRIMARY KEY (item, name),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX file_staged ON file (staged) WHERE staged IS NOT NULL;

CREATE TABLE leaving (
    path BLOB NOT NULL,  -- below DIR/col: what is no longer listed and goes
    PRIMARY KEY (path)
) WITHOUT ROWID;

-- The history of the items; nothing is ever taken out of it.
CREATE TABLE event (
    item INTEGER NOT NULL,
    number INTEGER NOT NULL,  -- 1, 2, … of its item
    moment VARCHAR NOT NULL,
    who VARCHAR NOT NULL,
    what VARCHAR NOT NULL,
    detail VARCHAR,  -- JSON
    PRIMARY KEY (item, number),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;

-- The feed of changes: `number` goes up with each transaction that commits.
CREATE TABLE changed (
    number INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (number)
);

-- What audits found in the stored files.
CREATE TABLE fixity (
    item INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,  -- what was listed when it was read
    read VARCHAR NOT NULL,  -- when it was last read
    good VARCHAR,  -- when it was last found good
    fault VARCHAR,  -- a value of tables.fixity.FileFault; none while it is good
    PRIMARY KEY (item, name),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX fixity_fault ON fixity (item) WHERE fault IS NOT NULL;

-- How far each audit has come.
CREATE TABLE audit (
    walk VARCHAR NOT NULL,  -- whose: the command, or the running Archive
    begun FLOAT NOT NULL,  -- POSIX seconds
    item INTEGER NOT NULL,  -- up to and with which file all were read
    name VARCHAR NOT NULL,
    done INTEGER NOT NULL,  -- bytes
    ended BOOLEAN NOT NULL,
    PRIMARY KEY (walk)
) WITHOUT ROWID;

-- The items that have or had files, beside which an item.json tells all about them.
CREATE TABLE sidecar (
    item INTEGER NOT NULL,
    owed INTEGER NOT NULL,  -- changes that its item.json does not tell yet
    PRIMARY KEY (item),
    FOREIGN KEY(item) REFERENCES item (number)
);
CREATE INDEX sidecar_owed ON sidecar (item) WHERE owed > 0;

CREATE TABLE thanked (
    url_key VARCHAR NOT NULL,  -- a urlkey that came back: it counts once
    expires INTEGER NOT NULL,  -- POSIX seconds; later it would be refused anyway
    readers INTEGER DEFAULT '0' NOT NULL,  -- in the row "<key> in all": for how many readers the key has counted
    PRIMARY KEY (url_key)
) WITHOUT ROWID;
CREATE INDEX thanked_expires ON thanked (expires);

-- Where copies come from.
CREATE TABLE copied (
    item INTEGER NOT NULL,
    archive VARCHAR NOT NULL,  -- root URL of the Archive of the original
    service VARCHAR NOT NULL,  -- IBI of its Archive service
    url VARCHAR NOT NULL,  -- of the file, if it was taken from a place that describes no items; else ""
    original VARCHAR NOT NULL,  -- timestamp of the original as last seen
    tag VARCHAR NOT NULL,  -- its ETag then
    compared BOOLEAN NOT NULL,  -- whether digests were given to compare with
    checked VARCHAR NOT NULL,  -- when it was last looked at
    since VARCHAR NOT NULL,  -- since when it is not known to be equal
    problem VARCHAR,  -- JSON: why not
    private BOOLEAN NOT NULL,  -- whether it may be in a private network
    PRIMARY KEY (item),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;
CREATE INDEX copied_checked ON copied (checked);

-- The originals that go to other Archives.
CREATE TABLE giving (
    id VARCHAR NOT NULL,
    item INTEGER NOT NULL,
    peer VARCHAR NOT NULL,
    address VARCHAR NOT NULL,  -- root URL of the receiver
    passage VARCHAR NOT NULL,  -- what the receiver fetches with
    proof VARCHAR NOT NULL,  -- what makes the receiver the owner
    fingerprint VARCHAR NOT NULL,  -- of the item when this Archive stepped back
    service VARCHAR NOT NULL,  -- IBI of the receiver's Archive service, from then on
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

-- The originals that come from other Archives.
CREATE TABLE receiving (
    id VARCHAR NOT NULL,
    item INTEGER,  -- once it is here
    giver VARCHAR NOT NULL,  -- name of its token
    address VARCHAR NOT NULL,  -- root URL of the giver
    seal VARCHAR NOT NULL,  -- SHA-256 of the proof
    fingerprint VARCHAR NOT NULL,  -- of what was fetched
    history VARCHAR NOT NULL,  -- JSON: what the giver tells of it
    stage VARCHAR NOT NULL,  -- a value of handover.ReceiverStage
    moment VARCHAR NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;

-- How the Archive stands at its resolvers.
CREATE TABLE membership (
    resolver VARCHAR NOT NULL,  -- its root URL
    state VARCHAR NOT NULL,  -- a value of tables.memberships.MembershipStanding
    since VARCHAR NOT NULL,
    heard VARCHAR,  -- when the resolver last gave an answer
    problem VARCHAR,  -- JSON: what went wrong last
    PRIMARY KEY (resolver)
) WITHOUT ROWID;

-- How far the records of other repositories have been taken in.
CREATE TABLE harvested (
    repository VARCHAR NOT NULL,  -- base URL of an OAI-PMH repository
    part VARCHAR NOT NULL,  -- its set, empty for all records
    format VARCHAR NOT NULL,  -- metadataPrefix
    token VARCHAR NOT NULL,  -- where an interrupted list goes on
    begun VARCHAR NOT NULL,  -- when that list began, by the clock over there
    newest VARCHAR NOT NULL,  -- the newest datestamp in it so far
    since VARCHAR NOT NULL,  -- from which datestamp on the next list is asked for
    PRIMARY KEY (repository, part, format)
) WITHOUT ROWID;

-- How often items were looked at and fetched, by the rules of COUNTER.
CREATE TABLE visits (
    item INTEGER NOT NULL,
    month VARCHAR NOT NULL,  -- 2026-11
    country VARCHAR NOT NULL,  -- two letters; empty where none is told
    investigations INTEGER NOT NULL,
    unique_investigations INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    unique_requests INTEGER NOT NULL,
    PRIMARY KEY (item, month, country),
    FOREIGN KEY(item) REFERENCES item (number)
) WITHOUT ROWID;

CREATE TABLE visit_mark (
    mark BLOB NOT NULL,  -- keyed hash: what must not be counted twice
    until FLOAT NOT NULL,  -- POSIX seconds; an hour ahead at most
    PRIMARY KEY (mark)
) WITHOUT ROWID;
CREATE INDEX visit_mark_until ON visit_mark (until);

CREATE TABLE visit_key (
    day VARCHAR NOT NULL,
    content BLOB NOT NULL,  -- what makes the marks of this day
    PRIMARY KEY (day)
) WITHOUT ROWID;

-- Every change of an item adds to its history, and so marks its item.json as outdated.
CREATE TRIGGER sidecar_of_file AFTER INSERT ON file
    BEGIN INSERT INTO sidecar (item, owed) VALUES (new.item, 1)
    ON CONFLICT (item) DO UPDATE SET owed = owed + 1; END;
CREATE TRIGGER sidecar_of_event AFTER INSERT ON event
    BEGIN UPDATE sidecar SET owed = owed + 1 WHERE item = new.item; END;

-- The feed reaches back 10,000 events.
CREATE TRIGGER changed_by_event AFTER INSERT ON event
    BEGIN INSERT INTO changed (item) VALUES (new.item);
    DELETE FROM changed WHERE number <= last_insert_rowid() - 10000; END;

-- What no program may do to a catalogue, this one or another (ARC-07, ARC-08, GEN-05).
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
