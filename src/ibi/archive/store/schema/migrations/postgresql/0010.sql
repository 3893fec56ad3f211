-- The schema of the catalogue in PostgreSQL as of version 10, with which a new database begins; later migrations are
-- those of SQLite. `catalogue.sql` says what columns mean. Texts are compared byte by byte, as SQLite does.

-- No number is skipped, as a sequence would skip those of transactions that are rolled back; one transaction writes at a time.
CREATE FUNCTION next_item() RETURNS BIGINT LANGUAGE plpgsql AS
    'BEGIN RETURN (SELECT coalesce(max(number), 0) + 1 FROM item); END';

-- One row for each item, so that an item has one state and is never both original and copy (ARC-04).
CREATE TABLE item (
    number BIGINT NOT NULL DEFAULT next_item(),
    rep TEXT COLLATE "C",
    ibip TEXT COLLATE "C",
    aliases TEXT COLLATE "C",
    "key" TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    content_type TEXT COLLATE "C" NOT NULL,
    timestamp TEXT COLLATE "C" NOT NULL,
    language TEXT COLLATE "C",
    transferable BOOLEAN NOT NULL,
    url TEXT COLLATE "C",
    target TEXT COLLATE "C",
    file_list_public BOOLEAN NOT NULL,
    file_count BIGINT NOT NULL,
    next_edition TEXT COLLATE "C",
    translations TEXT COLLATE "C",
    metadata_item TEXT COLLATE "C",
    metadata TEXT COLLATE "C",
    formats TEXT COLLATE "C",
    thanks BIGINT DEFAULT 0 NOT NULL,
    access TEXT COLLATE "C" DEFAULT 'open' NOT NULL CONSTRAINT item_access CHECK (access IN ('open', 'embargoed', 'restricted', 'closed')),
    embargo TEXT COLLATE "C",
    rights TEXT COLLATE "C",
    licence TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    unsettled TEXT COLLATE "C",
    institution TEXT COLLATE "C",
    replacement TEXT COLLATE "C",
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
    name TEXT COLLATE "C" NOT NULL,
    item BIGINT NOT NULL,
    main BOOLEAN NOT NULL,
    PRIMARY KEY (name),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE INDEX name_of_item ON name (item);

-- The manifest: a file that is not listed here is not served.
CREATE TABLE file (
    item BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    media_type TEXT COLLATE "C" NOT NULL,
    staged TEXT COLLATE "C",
    PRIMARY KEY (item, name),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE INDEX file_staged ON file (staged) WHERE staged IS NOT NULL;

CREATE TABLE leaving (
    path BYTEA NOT NULL,
    PRIMARY KEY (path)
);

-- The history of the items; nothing is ever deleted from it.
CREATE TABLE event (
    item BIGINT NOT NULL,
    number BIGINT NOT NULL,
    moment TEXT COLLATE "C" NOT NULL,
    who TEXT COLLATE "C" NOT NULL,
    what TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C",
    feed BIGINT,
    PRIMARY KEY (item, number),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE UNIQUE INDEX event_feed ON event (feed) WHERE feed IS NOT NULL;

-- The log of changes: `number` increases in the order in which transactions commit.
CREATE TABLE changed (
    number BIGINT NOT NULL,
    word TEXT COLLATE "C" NOT NULL,
    moment BIGINT NOT NULL,
    rules BIGINT NOT NULL,
    item BIGINT,
    PRIMARY KEY (number)
);
CREATE INDEX changed_anything ON changed (number) WHERE item IS NULL;

-- What audits found in the stored files.
CREATE TABLE fixity (
    item BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    read TEXT COLLATE "C" NOT NULL,
    good TEXT COLLATE "C",
    fault TEXT COLLATE "C",
    PRIMARY KEY (item, name),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE INDEX fixity_fault ON fixity (item) WHERE fault IS NOT NULL;

-- How far each audit has come.
CREATE TABLE audit (
    walk TEXT COLLATE "C" NOT NULL,
    begun DOUBLE PRECISION NOT NULL,
    item BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    done BIGINT NOT NULL,
    ended BOOLEAN NOT NULL,
    PRIMARY KEY (walk)
);

-- The items that have or had files. Beside its files, an item has an item.json with all its facts.
CREATE TABLE sidecar (
    item BIGINT NOT NULL,
    owed BIGINT NOT NULL,
    PRIMARY KEY (item),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE INDEX sidecar_owed ON sidecar (item) WHERE owed > 0;

CREATE TABLE thanked (
    url_key TEXT COLLATE "C" NOT NULL,
    expires BIGINT NOT NULL,
    readers BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (url_key)
);
CREATE INDEX thanked_expires ON thanked (expires);

-- Where copies come from.
CREATE TABLE copied (
    item BIGINT NOT NULL,
    archive TEXT COLLATE "C" NOT NULL,
    service TEXT COLLATE "C" NOT NULL,
    url TEXT COLLATE "C" NOT NULL,
    original TEXT COLLATE "C" NOT NULL,
    tag TEXT COLLATE "C" NOT NULL,
    compared BOOLEAN NOT NULL,
    checked TEXT COLLATE "C" NOT NULL,
    since TEXT COLLATE "C" NOT NULL,
    problem TEXT COLLATE "C",
    private BOOLEAN NOT NULL,
    due TEXT COLLATE "C" DEFAULT '~' NOT NULL,
    PRIMARY KEY (item),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE INDEX copied_checked ON copied (checked);
CREATE INDEX copied_from ON copied (archive, service, private);
CREATE INDEX copied_due ON copied (archive, service) WHERE due != '';

-- The Archives of the originals of copies: all that they have changed up to a position is in `copied.due`.
CREATE TABLE followed (
    archive TEXT COLLATE "C" NOT NULL,
    service TEXT COLLATE "C" NOT NULL,
    position TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (archive, service)
);

-- The outgoing hand-overs of originals.
CREATE TABLE giving (
    id TEXT COLLATE "C" NOT NULL,
    item BIGINT NOT NULL,
    peer TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    passage TEXT COLLATE "C" NOT NULL,
    proof TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    service TEXT COLLATE "C" NOT NULL,
    remove BOOLEAN NOT NULL,
    who TEXT COLLATE "C" NOT NULL,
    stage TEXT COLLATE "C" NOT NULL,
    moment TEXT COLLATE "C" NOT NULL,
    problem TEXT COLLATE "C",
    PRIMARY KEY (id),
    FOREIGN KEY (item) REFERENCES item (number)
);
CREATE INDEX giving_of_item ON giving (item);
CREATE INDEX giving_stage ON giving (stage);

-- The incoming hand-overs of originals.
CREATE TABLE receiving (
    id TEXT COLLATE "C" NOT NULL,
    item BIGINT,
    giver TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    seal TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    history TEXT COLLATE "C" NOT NULL,
    stage TEXT COLLATE "C" NOT NULL,
    moment TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY (item) REFERENCES item (number)
);

-- The state of the Archive at each of its resolvers.
CREATE TABLE membership (
    resolver TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    since TEXT COLLATE "C" NOT NULL,
    heard TEXT COLLATE "C",
    problem TEXT COLLATE "C",
    PRIMARY KEY (resolver)
);

-- How far the records of other repositories have been harvested.
CREATE TABLE harvested (
    repository TEXT COLLATE "C" NOT NULL,
    part TEXT COLLATE "C" NOT NULL,
    format TEXT COLLATE "C" NOT NULL,
    token TEXT COLLATE "C" NOT NULL,
    begun TEXT COLLATE "C" NOT NULL,
    newest TEXT COLLATE "C" NOT NULL,
    since TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (repository, part, format)
);

-- How often items were looked at and fetched, by the rules of COUNTER.
CREATE TABLE visits (
    item BIGINT NOT NULL,
    month TEXT COLLATE "C" NOT NULL,
    country TEXT COLLATE "C" NOT NULL,
    investigations BIGINT NOT NULL,
    unique_investigations BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    unique_requests BIGINT NOT NULL,
    PRIMARY KEY (item, month, country),
    FOREIGN KEY (item) REFERENCES item (number)
);

CREATE TABLE visit_mark (
    mark BYTEA NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (mark)
);
CREATE INDEX visit_mark_until ON visit_mark (until);

CREATE TABLE visit_key (
    day TEXT COLLATE "C" NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (day)
);

-- Every change of an item adds to its history, and so marks its item.json as outdated.
CREATE FUNCTION sidecar_of_file() RETURNS TRIGGER LANGUAGE plpgsql AS
    'BEGIN INSERT INTO sidecar (item, owed) VALUES (new.item, 1)
    ON CONFLICT (item) DO UPDATE SET owed = sidecar.owed + 1; RETURN NULL; END';
CREATE TRIGGER sidecar_of_file AFTER INSERT ON file FOR EACH ROW EXECUTE FUNCTION sidecar_of_file();
CREATE FUNCTION sidecar_of_event() RETURNS TRIGGER LANGUAGE plpgsql AS
    'BEGIN UPDATE sidecar SET owed = owed + 1 WHERE item = new.item; RETURN NULL; END';
CREATE TRIGGER sidecar_of_event AFTER INSERT ON event FOR EACH ROW EXECUTE FUNCTION sidecar_of_event();

-- Changes that no program may make to a catalogue, neither this one nor another (ARC-07, ARC-08, GEN-05).
CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION USING MESSAGE = tg_argv[0], ERRCODE = ''integrity_constraint_violation''; END';
CREATE TRIGGER removed_for_ever BEFORE UPDATE OF state ON item FOR EACH ROW
    WHEN (old.state = 'Deleted' AND new.state <> 'Deleted')
    EXECUTE FUNCTION refuse('law: a removed item stays removed');
CREATE TRIGGER original_stays BEFORE UPDATE OF state ON item FOR EACH ROW
    WHEN (old.state = 'Original' AND new.state = 'Copy' AND NOT old.transferable)
    EXECUTE FUNCTION refuse('law: this original is not transferable');
CREATE TRIGGER item_stays BEFORE DELETE ON item FOR EACH ROW EXECUTE FUNCTION refuse('law: no item is forgotten');
CREATE TRIGGER name_stays BEFORE DELETE ON name FOR EACH ROW EXECUTE FUNCTION refuse('law: no name is taken away');
CREATE TRIGGER name_keeps_its_item BEFORE UPDATE ON name FOR EACH ROW
    WHEN (new.name <> old.name OR new.item <> old.item)
    EXECUTE FUNCTION refuse('law: a name means one item for ever');
CREATE TRIGGER event_stays BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION refuse('law: history is not forgotten');

-- The first change, of anything, as the migrations of SQLite make it.
INSERT INTO changed (number, word, moment, rules) VALUES
    (1, substr(md5(random()::text || clock_timestamp()::text), 1, 16), extract(epoch FROM now())::bigint, 0);
