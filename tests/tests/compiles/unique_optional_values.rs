//! Unique indexes over optional values and arrays: missing values and empty arrays repeat, present values do not.

use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Embedded)]
struct Card {
    number: String,
    code: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(
    collection = "members",
    index(club, title; unique, partial = |m| m.title().gt("")),
    index(club, partner; unique, partial = |m| m.partner().exists()),
    index(club, parent; unique, partial = |m| m.club().exists()),
    index(cards.number; unique, partial = |m| m.cards().at(0).number().exists()),
    index(main.code; unique, partial = |m| m.main().code().gte(0)),
    index(main.number; unique)
)]
struct Member {
    #[serde(rename = "_id")]
    id: i64,
    club: i64,
    #[index(unique, partial = |m| m.nick().gt(""))]
    nick: Option<String>,
    #[index(unique, partial = |m| m.number().gte(i64::MIN))]
    number: Option<i64>,
    #[index(unique, sparse)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[reference]
    partner: Option<Ref<Member>>,
    title: Option<String>,
    parent: Option<i64>,
    #[index(unique, partial = |m| m.tags().at(0).exists())]
    #[embed(max = 3)]
    tags: Vec<String>,
    #[index(unique, sparse)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[embed(max = 3)]
    phones: Vec<String>,
    #[embed(max = 3)]
    cards: Vec<Card>,
    #[embed]
    main: Card,
}

#[derive(Schema)]
#[schema(models(Member))]
struct Club;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<Club>::open("memory:").await?;
    db.sync_indexes().await?;
    let none = |id: i64| Member {
        id,
        // Each member has a different club: the index on `club` and `parent` treats two missing parents as duplicates.
        club: id,
        nick: None,
        number: None,
        partner: None,
        title: None,
        parent: None,
        tags: Vec::new(),
        phones: Vec::new(),
        cards: Vec::new(),
        main: Card {
            number: id.to_string(),
            code: None,
        },
    };
    db.insert_many([none(1), none(2)]).await?;
    let some = |id| Member {
        nick: Some("ann".into()),
        tags: vec!["red".into()],
        phones: vec!["1".into()],
        ..none(id)
    };
    db.insert(some(3)).await?;
    for twice in [
        some(4),
        Member {
            tags: vec!["red".into()],
            ..none(4)
        },
        Member {
            phones: vec!["2".into(), "1".into()],
            ..none(4)
        },
        Member {
            club: 3,
            ..none(4)
        },
    ] {
        let twice = db.insert(twice).await;
        assert!(twice.is_err_and(|error| error.is_duplicate_key()));
    }
    Ok(())
}
