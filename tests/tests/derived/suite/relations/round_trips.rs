//! The number of round trips of each operation, as listed in `book/src/round-trips.md`.

use std::sync::Arc;

use odm::{backend::Recorder, prelude::*};

use crate::{
    Fixture,
    operation_lists::{CostRow, OperationLists, read_row, write_row},
};

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    maker: Ref<Maker>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
struct Maker {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "products")]
struct Product {
    #[serde(rename = "_id")]
    id: i64,
    name: String,
    #[reference(max = 20)]
    parts: Vec<Ref<Part>>,
    #[reference]
    maker: Ref<Maker>,
}

/// References the product, and is deleted with the product.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "reviews", index(product, -id))]
struct Review {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = cascade)]
    product: Ref<Product>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "persons")]
struct Person {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = owner, max = 200)]
    tasks: Vec<Ref<Task>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "tasks")]
struct Task {
    #[serde(rename = "_id")]
    id: i64,
    text: String,
    #[reference(inverse = tasks, on_delete = restrict)]
    owner: Ref<Person>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "places")]
struct Place {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "visits")]
struct Visit {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(on_delete = nullify)]
    at: Option<Ref<Place>>,
}

/// A group with the first 20 members as resident elements.
#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "groups")]
struct Group {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse_of = group, overflow(after = 20, into = "more_members"))]
    members: Overflow<Ref<Member>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "members")]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    #[reference(inverse = members, on_delete = restrict)]
    group: Ref<Group>,
}

#[derive(Schema)]
#[schema(models(
    Part, Maker, Product, Review, Person, Task, Place, Visit, Group, Member
))]
struct Shop;
type Db = odm::Database<Shop>;

async fn insert_documents(db: &Db) {
    db.sync_indexes().await.unwrap();
    let maker = Ref::new(1);
    db.insert(Maker { id: 1 }).await.unwrap();
    let part = |id| Part { id, maker };
    db.insert_many((0..50).map(part)).await.unwrap();
    let product = |id| Product {
        id,
        name: format!("product {id}"),
        parts: (0..10).map(|n| Ref::new((id + n) % 50)).collect(),
        maker,
    };
    db.insert_many((0..100).map(product)).await.unwrap();
    db.insert_many((0..10).map(|id| review(id, 7)))
        .await
        .unwrap();
    for id in 0..3 {
        db.insert(NewPerson { id }).await.unwrap();
    }
    db.insert(task(1, 0)).await.unwrap();
    db.insert_many((0..10).map(|id| Place { id }))
        .await
        .unwrap();
    db.insert_many((0..10).map(|id| visit(id, 3)))
        .await
        .unwrap();
    for id in 0..2 {
        db.insert(NewGroup { id }).await.unwrap();
        let members = (0..50).map(|n| member(100 * id + n, id));
        db.insert_many(members).await.unwrap();
    }
}

fn review(id: i64, product: i64) -> Review {
    Review {
        id,
        product: Ref::new(product),
    }
}

fn task(id: i64, owner: i64) -> Task {
    Task {
        id,
        text: String::new(),
        owner: Ref::new(owner),
    }
}

fn visit(id: i64, at: i64) -> Visit {
    Visit {
        id,
        at: Some(Ref::new(at)),
    }
}

fn member(id: i64, group: i64) -> Member {
    Member {
        id,
        group: Ref::new(group),
    }
}

/// The operations of the table, in sequence.
const COST_ROWS: &[CostRow<Shop>] = &[
    write_row!("insert", |db| db.insert(Maker { id: 2 })),
    write_row!("insert of 1,000", |db| {
        db.insert_many((1_000..2_000).map(|id| Maker { id }))
    }),
    write_row!("update", |db| {
        db.update::<Product>(1).set(|p| p.name(), "other")
    }),
    write_row!("delete", |db| db.delete::<Maker>(2)),
    write_row!("insert with an `exists` reference", |db| {
        db.insert(visit(100, 1))
    }),
    write_row!(
        "insert of 100 with `exists` references to 10 documents",
        |db| db.insert_many((200..300).map(|id| visit(id, id % 10)))
    ),
    write_row!("update of an `exists` reference", |db| {
        db.update::<Visit>(200).set(|v| v.at(), Some(Ref::new(4)))
    }),
    write_row!("insert with a two-way reference", |db| {
        db.insert(task(2, 0))
    }),
    write_row!(
        "insert of 100 with a two-way reference to the same document",
        |db| db.insert_many((100..200).map(|id| task(id, 0)))
    ),
    write_row!("update that moves a two-way reference", |db| {
        db.update::<Task>(1).set(|t| t.owner(), Ref::new(1))
    }),
    write_row!(
        "insert with a two-way reference to a document with an overflowed inverse",
        |db| db.insert(member(1_000, 0))
    ),
    write_row!(
        "update that moves a two-way reference away from an overflowed inverse",
        |db| db.update::<Member>(40).set(|m| m.group(), Ref::new(1))
    ),
    write_row!("delete of a document in an overflowed inverse", |db| {
        db.delete::<Member>(41)
    }),
    write_row!(
        "update of a plain field of a model with two-way references",
        |db| db.update::<Task>(1).set(|t| t.text(), "other")
    ),
    write_row!("delete of a document with a two-way reference", |db| {
        db.delete::<Task>(1)
    }),
    write_row!(
        "delete of a document without referrers, with `restrict`",
        |db| db.delete::<Person>(2)
    ),
    write_row!(
        "delete of a document with 10 referrers, with `nullify`",
        |db| db.delete::<Place>(3)
    ),
    write_row!(
        "delete of a document with 10 referrers, with `cascade`",
        |db| db.delete::<Product>(7)
    ),
    read_row!("join of 100 products with 10 parts each", |db| {
        db.find::<Product>().with(|p| p.parts()).all()
    }),
    read_row!("join of three levels", |db| {
        db.find::<Product>()
            .with(|p| p.parts().with(|p| p.maker()))
            .all()
    }),
    read_row!("join of two relations of one document", |db| {
        db.find::<Product>()
            .with(|p| p.parts())
            .with(|p| p.maker())
            .all()
    }),
    read_row!("the latest 5 children of each of 100 documents", |db| {
        let children = Review::by(|r| r.product()).sort(|r| r.id().desc()).limit(5);
        db.find::<Product>().with_children(children).all()
    }),
    read_row!("`load` of documents of three models", |db| {
        let references = (
            Ref::<Maker>::new(1),
            Ref::<Part>::new(1),
            Ref::<Place>::new(1),
        );
        db.load(references)
    }),
    CostRow {
        name: "save",
        run: |db, aside| {
            Box::pin(async move {
                let mut edited = aside.edit::<Product>(1).await?;
                edited.name = "third".to_owned();
                db.save(&mut edited).await
            })
        },
        explain: Some(|db, aside, is_standalone| {
            Box::pin(async move {
                let mut edited = aside.edit::<Product>(1).await?;
                edited.name = "third".to_owned();
                let explain = db.save(&mut edited).explain();
                match is_standalone {
                    true => explain.standalone().await,
                    false => explain.await,
                }
            })
        }),
    },
];

pub async fn round_trips_match_the_book(fixture: Fixture) {
    let column = if fixture.backend().capabilities().transactions {
        2
    } else {
        3
    };
    let recorder = Recorder::new(fixture.backend());
    let db = Db::with_backend(Arc::new(recorder.clone()));
    insert_documents(&db).await;
    let mut counted = Vec::new();
    let mut lists = OperationLists::new(&fixture);
    for row in COST_ROWS {
        let count = lists.run_row(row, &db, &recorder).await;
        counted.push((row.name.to_owned(), count));
    }

    let table = include_str!("../../../../../book/src/round-trips.md");
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let rows = rows.skip(1).map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (
            cells[1].to_owned(),
            cells[column].parse().expect("a number"),
        )
    });
    let mut documented: Vec<(String, usize)> = rows.collect();
    documented.sort();
    counted.sort();
    assert_eq!(counted, documented);
    lists.assert_match_the_book();
}
