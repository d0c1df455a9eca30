//! The corrected code of `book/src/mistakes.md`. A test requires each line of the code blocks in this file.

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "makers")]
pub(crate) struct Maker {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
pub(crate) struct Size {
    pub width: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
pub(crate) struct Part {
    #[serde(rename = "_id")]
    pub id: i64,
    pub name: String,
    pub votes: i64,
    #[embed]
    pub size: Size,
    #[embed(max = 20)]
    pub tags: Vec<String>,
    #[embed(max = 3)]
    pub few: Vec<String>,
    #[reference]
    pub maker: Ref<Maker>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "tickets")]
pub(crate) struct Ticket {
    #[serde(rename = "_id")]
    pub id: i64,
    #[reference(on_delete = restrict)]
    pub maker: Ref<Maker>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "tasks", version)]
pub(crate) struct Task {
    #[serde(rename = "_id")]
    pub id: i64,
    pub text: String,
    pub version: i64,
}

#[derive(Schema)]
#[schema(models(Part, Maker, Task, Ticket))]
pub(crate) struct Shop;

#[tokio::test]
async fn remedies_work() -> odm::Result<()> {
    let db = odm::Database::<Shop>::open("memory:").await?;
    let maker = Maker {
        id: 7,
        name: "Ann".into(),
    };
    db.insert(maker).await?;
    let part = Part {
        id: 1,
        name: "part".into(),
        votes: 3,
        size: Size { width: 1 },
        tags: Vec::new(),
        few: Vec::new(),
        maker: Ref::new(7),
    };
    db.insert(part).await?;
    db.insert(NewTask { id: 1, text: "write".into() }).await?;
    let three = db.find::<Part>().filter(|p| p.votes().eq(3)).all().await?;
    let between = db.find::<Part>()
        .filter(|p| p.votes().gt(3) & p.votes().lt(5))
        .all().await?;
    assert_eq!((three.len(), between.len()), (1, 0));
    let made = db.find::<Part>().filter(|p| p.maker().eq(Ref::new(7)));
    assert_eq!(made.count().await?, 1);
    db.update::<Part>(1).inc(|p| p.votes(), 1).await?;
    db.update::<Part>(1).set(|p| p.name(), "odm").await?;
    let named = db.find::<Part>().filter(|p| p.name().eq("odm"));
    let named = named.with(|p| p.maker()).all().await?;
    assert_eq!(named.len(), 1);
    let found = db.find::<Part>().with(|p| p.maker()).all().await?;
    for (part, maker) in &found {
        assert!(matches!(maker.get(), Loaded(maker) if maker.name == "Ann"), "{part:?}");
    }
    let part = db.get::<Part>(1).await?;
    db.insert(Part { id: 2, ..part }).await?;
    db.delete::<Part>(1).await?;
    assert_eq!(db.find::<Part>().one().await?.id, 2);
    Ok(())
}
