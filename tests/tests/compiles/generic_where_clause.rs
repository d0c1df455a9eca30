//! Bounds in a `where` clause, with a default for a type parameter.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(bound = "")]
struct Pairs<A, B = A>
where
    A: Embedded + Clone,
    B: Embedded,
{
    #[embed(max = 5)]
    firsts: Vec<A>,
    #[embed(max = 5)]
    seconds: Vec<B>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Name {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Age {
    years: u8,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "couples")]
struct Couple {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    names: Pairs<Name>,
    #[embed]
    ages: Pairs<Name, Age>,
}

pub(crate) fn main() {
    let c = Couple::fields();
    let filter = c.names().seconds().text().eq("Ann") & c.ages().seconds().years().gte(18);
    assert!(format!("{filter:?}").contains("ages.seconds.years"));
}
