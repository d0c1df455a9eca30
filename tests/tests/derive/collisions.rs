//! A user's field may have any name. The field wins over the operator of the same name.

use odm::{field::Place as _, prelude::*};

#[derive(Clone, Serialize, Deserialize, Embedded)]
struct Inner {
    eq: String,
    gt: i64,
    path: bool,
    whole: i64,
    deref: i64,
}

#[derive(Clone, Serialize, Deserialize, Document)]
#[document(collection = "models", index(clone, -path; unique), index(inner.eq))]
struct Model {
    #[serde(rename = "_id")]
    id: i64,
    eq: i64,
    len: i64,
    clone: i64,
    any: i64,
    path: String,
    fields: i64,
    filter: i64,
    of: i64,
    from_path: i64,
    validate: i64,
    r#type: i64,
    r#match: i64,
    r#async: i64,
    #[embed]
    inner: Inner,
    #[embed(max = 3)]
    inners: Vec<Inner>,
    #[embed]
    perhaps: Option<Inner>,
}

#[test]
fn fields_win_over_operators() {
    let m = Model::fields();
    for (field, name) in [
        (m.eq(), "eq"),
        (m.len(), "len"),
        (m.clone(), "clone"),
        (m.any(), "any"),
        (m.fields(), "fields"),
        (m.filter(), "filter"),
        (m.of(), "of"),
        (m.from_path(), "from_path"),
        (m.validate(), "validate"),
        (m.r#type(), "type"),
        (m.r#match(), "match"),
        (m.r#async(), "async"),
    ] {
        assert_eq!(field.path().dotted().unwrap(), name);
    }
    assert_eq!(m.path().path().dotted().unwrap(), "path");
    let filter = m.inner().eq().eq("x") & m.inner().gt().gt(3) & m.inner().path().eq(true);
    let text = format!("{filter:?}");
    for name in ["inner.eq", "inner.gt", "inner.path"] {
        assert!(text.contains(name), "{text}");
    }
    // The operators remain reachable.
    let whole = odm::field::Field::eq(&m.inner(), inner());
    assert!(format!("{whole:?}").contains("deref"));
    assert!(format!("{:?}", m.inners().each().eq().eq("x")).contains("inners.eq"));
    assert!(format!("{:?}", m.perhaps().gt().gt(1)).contains("perhaps.gt"));
}

fn inner() -> Inner {
    Inner {
        eq: "x".into(),
        gt: 4,
        path: true,
        whole: 1,
        deref: 1,
    }
}
