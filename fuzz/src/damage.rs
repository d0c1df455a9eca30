use std::sync::OnceLock;

use bson::rawdoc;
use odm_engine::{Database, Delete, Direction, Find, Index, Update};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use twox_hash::XxHash3_64;

use crate::collections::assert_valid_bson;
use crate::generate::Generator;
use crate::storage::Storage;

/// The table of the engine, named as in the format specification.
const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("odm-engine");

/// Tests that opening a database file with damaged bytes does not panic.
pub fn file(data: &[u8]) {
    let mut generator = Generator::new(data);
    let [closed, open] = database_files();
    let mut content = if generator.one_in(2) {
        open.clone()
    } else {
        closed.clone()
    };
    for _ in 0..generator.below(8) {
        let place = match generator.below(3) {
            0 => generator.below(512),
            1 => generator.below(content.len().div_ceil(4096)) * 4096 + generator.below(64),
            _ => generator.below(content.len()),
        };
        let byte = generator.byte();
        if let Some(place) = content.get_mut(place) {
            *place ^= byte;
        }
    }
    if generator.one_in(8) {
        content.truncate(generator.below(content.len()));
    }
    use_all(&Storage::new(content));
}

/// Tests that damaged keys and values in a valid file do not cause a panic, with correct and with wrong checksums.
pub fn stored(data: &[u8]) {
    let mut generator = Generator::new(data);
    let storage = Storage::new(database_files()[0].clone());
    damage(&storage, &mut generator).expect("the file is sound");
    use_all(&storage);
}

/// Tests arbitrary bytes as the keys of an index that answers a query alone: each key gives a document or an error.
pub fn decoding(data: &[u8]) {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    let image = IMAGE.get_or_init(|| covering_index_file().expect("the file is sound"));
    let storage = Storage::new(image.clone());
    replace_keys(&storage, data).expect("the file is sound");
    let database = Database::open_storage(storage).expect("only keys were changed");
    for projection in [
        rawdoc! { "a": 1, "b": 1, "_id": 0 },
        rawdoc! { "b": 1, "_id": 0 },
    ] {
        let find = Find {
            projection: Some(projection),
            hint: Some("a_1_b_-1".into()),
            ..Find::default()
        };
        match database.explain("c", &find) {
            Ok(explained) => assert!(explained.covered),
            Err(error) => assert!(error.is_damaged(), "{error:?}"),
        }
        for found in database.find("c", &find).expect("it is valid") {
            match found {
                Ok(document) => assert_valid_bson(&document),
                Err(error) => assert!(error.is_damaged(), "{error:?}"),
            }
        }
    }
}

/// Returns the file of a database with an index on two fields.
fn covering_index_file() -> odm_engine::Result<Vec<u8>> {
    let storage = Storage::default();
    let database = Database::open_storage(storage.clone())?;
    let keys = [("a", Direction::Ascending), ("b", Direction::Descending)];
    database.create_indexes("c", &[Index::new(keys)])?;
    database
        .insert("c", vec![rawdoc! { "a": 1, "b": "x" }])?
        .into_result()?;
    drop(database);
    Ok(storage.content())
}

/// Replaces the keys of the index with pieces of the input. Each piece has a length prefix.
fn replace_keys(storage: &Storage, mut data: &[u8]) -> Result<(), redb::Error> {
    const ENTRY: u8 = 0x03;
    let database =
        redb::Builder::new().create_with_backend(Database::redb_storage(storage.clone()))?;
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(TABLE)?;
        let key = {
            let mut entries = table.range::<&[u8]>(&[ENTRY][..]..)?;
            let entry = entries.next().expect("there is one document")?;
            entry.0.value().to_vec()
        };
        table.remove(key.as_slice())?;
        let (prefix, record) = (&key[..9], &key[key.len() - 8..]);
        while let Some((length, rest)) = data.split_first() {
            let (piece, rest) = rest.split_at(usize::from(*length).min(rest.len()));
            data = rest;
            let key = [prefix, piece, record].concat();
            table.insert(key.as_slice(), with_checksum(&key, &[]).as_slice())?;
        }
    }
    write.commit()?;
    Ok(())
}

/// Returns a value with the checksum of the format specification.
fn with_checksum(key: &[u8], value: &[u8]) -> Vec<u8> {
    let hash = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key), value);
    [value, &hash.to_be_bytes()[4..]].concat()
}

fn damage(storage: &Storage, generator: &mut Generator<'_>) -> Result<(), redb::Error> {
    let database =
        redb::Builder::new().create_with_backend(Database::redb_storage(storage.clone()))?;
    let keys = {
        let table = database.begin_read()?.open_table(TABLE)?;
        let keys = table
            .iter()?
            .map(|entry| entry.map(|(key, _)| key.value().to_vec()));
        keys.collect::<Result<Vec<_>, _>>()?
    };
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(TABLE)?;
        for _ in 0..1 + generator.below(4) {
            let mut key = keys[generator.below(keys.len())].clone();
            let Some(mut value) = table
                .get(key.as_slice())?
                .map(|value| value.value().to_vec())
            else {
                continue;
            };
            table.remove(key.as_slice())?;
            if generator.one_in(8) {
                change_bytes(&mut value, generator);
            } else {
                value.truncate(value.len().saturating_sub(4));
                match generator.below(4) {
                    0 => change_bytes(&mut key, generator),
                    1 => continue,
                    _ => change_bytes(&mut value, generator),
                }
                value = with_checksum(&key, &value);
            }
            table.insert(key.as_slice(), value.as_slice())?;
        }
    }
    write.commit()?;
    Ok(())
}

/// Changes, adds or removes some bytes.
fn change_bytes(bytes: &mut Vec<u8>, generator: &mut Generator<'_>) {
    for _ in 0..1 + generator.below(3) {
        let place = generator.below(bytes.len() + 1);
        match generator.below(4) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, generator.byte()),
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = generator.byte();
                }
            }
        }
    }
}

/// Reads and writes in every way of the public interface. Errors are allowed.
fn use_all(storage: &Storage) {
    let Ok(database) = Database::open_storage(storage.clone()) else {
        return;
    };
    let _ = database.validate();
    let filters = [
        rawdoc! {},
        rawdoc! { "_id": { "$gte": 3 } },
        rawdoc! { "n": { "$lt": 9 } },
        rawdoc! { "tags": { "$in": [1, "x"] } },
        rawdoc! { "in.text": { "$regex": "^7" } },
        rawdoc! { "_id": 5 },
    ];
    for filter in filters {
        let sort = Some(rawdoc! { "n": -1 });
        for sort in [None, sort] {
            let find = Find {
                filter: filter.clone(),
                sort,
                ..Find::default()
            };
            // An error ends a cursor.
            let _ = database
                .find("c", &find)
                .map(|found| found.take(1000).count());
        }
        let _ = database.distinct("c", "tags", &filter);
        let update = rawdoc! { "$push": { "tags": 7 }, "$inc": { "n": 1 } };
        let update = Update {
            filter: filter.clone(),
            update,
            multi: true,
            ..Update::default()
        };
        let _ = database.update("c", &update);
        let _ = database.list_indexes("c");
        let _ = database.insert("c", vec![rawdoc! { "n": 1, "tags": [1] }]);
        let _ = database.delete(
            "c",
            &Delete {
                filter,
                ..Delete::default()
            },
        );
    }
    let _ = database.create_indexes("c", &[Index::new([("in", Direction::Ascending)])]);
    let _ = database.drop_index("c", "n_-1");
    let _ = database.delete_expired();
}

/// Returns the file of a closed database, and the file of a database at a crash.
fn database_files() -> &'static [Vec<u8>; 2] {
    static IMAGES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let storage = Storage::default();
        let open = fill(&storage).expect("the file is sound");
        [storage.content(), open]
    })
}

/// Fills a database, and returns the file of the open database.
fn fill(storage: &Storage) -> odm_engine::Result<Vec<u8>> {
    let database = Database::open_storage(storage.clone())?;
    let indexes = [
        Index::new([("n", Direction::Descending)]),
        Index::new([("tags", Direction::Ascending), ("n", Direction::Ascending)]),
        Index::new([("in.text", Direction::Ascending)]).unique(),
        Index::new([("when", Direction::Ascending)])
            .expire_after(std::time::Duration::from_secs(1)),
    ];
    database.create_indexes("c", &indexes)?;
    let documents = (0..40).map(|n| {
        let when = bson::DateTime::from_millis(4_000_000_000_000);
        rawdoc! { "_id": n, "n": n % 7, "tags": [n % 3, "x"], "in": { "text": n.to_string() }, "when": when }
    });
    database.insert("c", documents.collect())?.into_result()?;
    database
        .insert("d", vec![rawdoc! { "_id": 1 }])?
        .into_result()?;
    database.delete(
        "c",
        &Delete {
            filter: rawdoc! { "n": 3 },
            multi: true,
            ..Delete::default()
        },
    )?;
    Ok(storage.content())
}
