//! Models in submodules, with private fields.

mod people {
    use odm::prelude::*;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "people")]
    pub struct Person {
        #[serde(rename = "_id")]
        id: i64,
        pub name: String,
        secret: String,
        #[embed]
        pub(crate) home: super::places::Place,
    }

    impl Person {
        pub fn new(id: i64, name: &str) -> Self {
            let home = super::places::Place::at("here");
            Self { id, name: name.into(), secret: String::new(), home }
        }

        pub fn has_secret() -> odm::Filter<Self> {
            Self::fields().secret().ne("")
        }
    }
}

mod places {
    use odm::prelude::*;

    #[derive(Debug, Serialize, Deserialize, Embedded)]
    pub(crate) struct Place {
        pub(super) name: String,
        note: Option<String>,
    }

    impl Place {
        pub(crate) fn at(name: &str) -> Self {
            Self { name: name.into(), note: None }
        }
    }
}

#[derive(odm::Schema)]
#[schema(models(people::Person))]
struct World;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> odm::Result<()> {
    let db = odm::Database::<World>::open("memory:").await?;
    db.insert(people::Person::new(1, "Ann")).await?;
    let here = db.find::<people::Person>().filter(|p| p.home().name().eq("here") & p.name().eq("Ann"));
    assert_eq!(here.count().await?, 1);
    assert_eq!(db.find::<people::Person>().filter(|_| people::Person::has_secret()).count().await?, 0);
    Ok(())
}
