//! A generic embedded struct inside an embedded struct, and a generic newtype.

use odm::prelude::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(bound = "")]
struct Range<T: Embedded> {
    #[embed(max = 2)]
    ends: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(bound = "")]
struct Marked<T: Embedded>(T);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Point {
    x: i64,
}

#[derive(Serialize, Deserialize, Document)]
#[document(collection = "walks")]
struct Walk {
    #[serde(rename = "_id")]
    id: i64,
    #[embed]
    range: Range<Point>,
    #[embed(max = 3)]
    ranges: Vec<Range<Range<Point>>>,
    marked: Marked<Point>,
}

pub(crate) fn main() {
    let w = Walk::fields();
    let filter = w.range().ends().x().gt(3) & w.ranges().ends().ends().x().eq(1);
    assert!(format!("{filter:?}").contains("ranges.ends.ends.x"));
}
