use odm::{
    Database, Error, ErrorKind, Filter,
    backend::{drain, operation},
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Invoice {
    pub number: String,
    pub due: i64,
}

/// A module for each of serde's representations, with the same models and tests.
macro_rules! representations {
    ($($name:ident: $collection:literal $unknown:literal $($serde:meta)*;)*) => {
        $(mod $name {
            use super::*;

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
            $(#[serde($serde)])*
            #[serde(rename_all = "lowercase")]
            pub(super) enum Payment {
                Card {
                    number: String,
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    note: Option<String>,
                },
                Invoice(Invoice),
                Cash,
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(collection = $collection)]
            pub(super) struct Order {
                #[serde(rename = "_id")]
                pub id: i64,
                #[embed]
                pub payment: Payment,
                #[embed]
                pub second: Option<Payment>,
                #[embed(max = 5)]
                pub parts: Vec<Payment>,
            }

            #[derive(Schema)]
            #[schema(models(Order))]
            pub(super) struct Shop;

            pub(super) type Db = Database<Shop>;

            fn card(number: &str) -> Payment {
                Payment::Card { number: number.into(), note: None }
            }

            fn noted(number: &str, note: &str) -> Payment {
                Payment::Card { number: number.into(), note: Some(note.into()) }
            }

            fn invoice(number: &str) -> Payment {
                Payment::Invoice(Invoice { number: number.into(), due: 30 })
            }

            fn order(id: i64, payment: Payment, parts: &[Payment]) -> Order {
                Order { id, payment, second: None, parts: parts.to_vec() }
            }

            pub(super) async fn asked_for(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                let second = Some(card("1"));
                db.insert_many([
                    order(1, card("1"), &[card("2"), invoice("1")]),
                    order(2, invoice("1"), &[noted("1", "n"), Payment::Cash]),
                    Order { second, ..order(3, Payment::Cash, &[]) },
                    order(4, card("2"), &[Payment::Cash, invoice("2")]),
                ]).await.unwrap();
                let ids = async |filter: Filter<Order>| {
                    let orders = db.find::<Order>().filter(|_| filter).sort(|o| o.id().asc()).all().await.unwrap();
                    orders.into_iter().map(|order| order.id).collect::<Vec<_>>()
                };
                let o = Order::fields();
                let p = o.payment();
                assert_eq!(ids(p.is_card()).await, [1, 4]);
                assert_eq!(ids(!p.is_card()).await, [2, 3]);
                assert_eq!(ids(p.is_cash() | p.is_invoice()).await, [2, 3]);
                // Both variants have a field of this name.
                assert_eq!(ids(p.card(|c| c.number().eq("1"))).await, [1]);
                assert_eq!(ids(p.invoice(|i| i.number().eq("1") & i.due().gt(10))).await, [2]);
                assert_eq!(ids(!p.card(|c| c.number().eq("1"))).await, [2, 3, 4]);
                assert_eq!(ids(p.card(|c| !c.number().eq("1"))).await, [4]);
                assert_eq!(ids(p.card(|c| c.number().eq("1") | c.number().eq("2"))).await, [1, 4]);
                assert_eq!(ids(p.card(|c| c.note().is_none())).await, [1, 4]);
                assert_eq!(ids(p.card(|_| None)).await, [1, 4]);
                assert_eq!(ids(p.card(|_| Filter::all())).await, [1, 4]);
                // As a whole.
                assert_eq!(ids(p.eq(invoice("1"))).await, [2]);
                assert_eq!(ids(p.ne(Payment::Cash)).await, [1, 2, 4]);
                assert_eq!(ids(p.is_in([card("2"), Payment::Cash])).await, [3, 4]);
                // In an option.
                assert_eq!(ids(o.second().is_card()).await, [3]);
                assert_eq!(ids(o.second().card(|c| c.number().eq("1"))).await, [3]);
                assert_eq!(ids(o.second().is_none()).await, [1, 2, 4]);
                // In an array it is one element that is of the variant and meets the condition.
                assert_eq!(ids(o.parts().is_cash()).await, [2, 4]);
                assert_eq!(ids(o.parts().is_card()).await, [1, 2]);
                assert_eq!(ids(!o.parts().is_card()).await, [3, 4]);
                assert_eq!(ids(o.parts().any(|x| x.is_invoice())).await, [1, 4]);
                assert_eq!(ids(o.parts().any(|x| x.card(|c| c.number().eq("1")))).await, [2]);
                assert_eq!(ids(o.parts().any(|x| x.card(|c| c.number().eq("1") & c.note().is_some()))).await, [2]);
                assert_eq!(ids(o.parts().any(|x| x.is_cash() | x.card(|c| c.number().eq("2")))).await, [1, 2, 4]);
                assert_eq!(ids(o.parts().at(1).invoice(|i| i.number().eq("2"))).await, [4]);
                assert_eq!(ids(o.parts().any(|x| !x.is_card())).await, [1, 2, 4]);
                assert_eq!(ids(o.parts().any(|x| !x.is_card() & !x.is_invoice())).await, [2, 4]);
                assert_eq!(ids(o.parts().any(|x| !x.is_cash())).await, [1, 2, 4]);
                assert_eq!(ids(o.parts().any(|x| !x.is_cash() & !x.is_card())).await, [1, 4]);
                assert_eq!(ids(o.parts().any(|x| !x.card(|c| c.number().eq("1")))).await, [1, 2, 4]);
                assert_eq!(ids(o.parts().any(|x| x.is_cash() & x.is_card())).await, [] as [i64; 0]);
                assert_eq!(ids(o.parts().contains(invoice("1"))).await, [1]);
            }

            pub(super) async fn updated(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                db.insert_many([
                    order(1, card("1"), &[card("1"), invoice("1")]),
                    order(2, invoice("1"), &[card("1"), Payment::Cash]),
                    order(3, Payment::Cash, &[]),
                ]).await.unwrap();
                let done = db.update_many::<Order>(|_| Filter::all())
                    .set(|o| o.payment().card(|c| c.number()), "7")
                    .await
                    .unwrap();
                assert_eq!((done.matched, done.modified), (1, 1));
                // By id, it tells whether it applied.
                let second = |id| db.update::<Order>(id)
                    .inc(|o| o.payment().invoice(|i| i.due()), 1)
                    .set(|o| o.second(), card("second"));
                for (id, applies) in [(1, false), (2, true), (3, false)] {
                    assert_eq!(second(id).await.unwrap().applied(), applies, "{id}");
                }
                assert!(second(4).await.unwrap_err().is_not_found());
                let done = db.update::<Order>(1)
                    .set(|o| o.parts().at(1).invoice(|i| i.number()), "8")
                    .set(|o| o.parts().at(0).card(|c| c.note()), "n")
                    .await;
                assert!(done.unwrap().applied());
                let done = db.update::<Order>(2).set(|o| o.parts().at(1).invoice(|i| i.number()), "8").await;
                assert!(!done.unwrap().applied());
                let done = db.update::<Order>(2).pull_where(|o| o.parts(), |x| x.card(|c| c.number().eq("1"))).await;
                assert!(done.unwrap().applied());
                db.update::<Order>(3).set(|o| o.payment(), invoice("9")).push(|o| o.parts(), Payment::Cash).await.unwrap();

                let second = Some(card("second"));
                let due = Payment::Invoice(Invoice { number: "1".into(), due: 31 });
                assert_eq!(db.find::<Order>().sort(|o| o.id().asc()).all().await.unwrap(), [
                    order(1, card("7"), &[noted("1", "n"), invoice("8")]),
                    Order { second, ..order(2, due, &[Payment::Cash]) },
                    order(3, invoice("9"), &[Payment::Cash]),
                ]);
            }

            /// One task changes the variant, others write inside of one: no document is ever both.
            pub(super) async fn updated_at_once(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                db.insert(order(1, card("0"), &[])).await.unwrap();
                let mut tasks = tokio::task::JoinSet::new();
                for task in 0..3 {
                    let db = db.clone();
                    tasks.spawn(async move {
                        for n in 0..20 {
                            let update = db.update::<Order>(1);
                            match task {
                                0 => {
                                    let whole = [invoice("i"), Payment::Cash, card("c")];
                                    let done = update.set(|o| o.payment(), &whole[n % 3]).await;
                                    assert!(done.unwrap().applied());
                                }
                                1 => {
                                    update.set(|o| o.payment().card(|c| c.note()), "n").await.unwrap();
                                }
                                _ => {
                                    update.inc(|o| o.payment().invoice(|i| i.due()), 1).await.unwrap();
                                }
                            }
                            let payment = raw(&db, $collection).await.get_document("payment").map(|payment| payment.to_owned());
                            // A card has no due, an invoice no note: what is read is all that is stored.
                            if let Ok(stored) = payment {
                                let stored: bson::Document = stored.try_into().unwrap();
                                let read: Payment = bson::deserialize_from_document(stored.clone()).unwrap();
                                let again = bson::serialize_to_document(&read).unwrap();
                                assert_eq!(stored.len(), again.len(), "{stored}");
                                assert!(again.keys().all(|key| stored.contains_key(key)), "{stored}");
                            }
                        }
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    done.unwrap();
                }
            }

            pub(super) async fn saved(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                db.insert(order(1, noted("1", "n"), &[card("1"), card("2")])).await.unwrap();
                // What the model does not know is kept inside of the variant, and goes with it.
                put(&db, $collection, $unknown).await;
                let mut edited = db.edit::<Order>(1).await.unwrap();
                edited.payment = noted("2", "n");
                db.save(&mut edited).await.unwrap();
                assert!(shown(&raw(&db, $collection).await).contains("unknown"));
                edited.payment = invoice("3");
                db.save(&mut edited).await.unwrap();
                assert!(!shown(&raw(&db, $collection).await).contains("unknown"));
                assert_eq!(db.get::<Order>(1).await.unwrap(), *edited);
                edited.parts[1] = invoice("4");
                edited.payment = Payment::Cash;
                db.save(&mut edited).await.unwrap();
                edited.payment = noted("5", "m");
                db.save(&mut edited).await.unwrap();
                let expected = order(1, noted("5", "m"), &[card("1"), invoice("4")]);
                assert_eq!(*edited, expected);
                assert_eq!(raw(&db, $collection).await, written(&expected));

                // Another write changes the variant; what is saved in the one that was read is a conflict, though
                // nobody has written the same field.
                for other in [invoice("6"), Payment::Cash] {
                    let payment = || db.update::<Order>(1);
                    payment().set(|o| o.payment(), card("5")).await.unwrap();
                    let mut stale = db.edit::<Order>(1).await.unwrap();
                    payment().set(|o| o.payment(), &other).await.unwrap();
                    stale.payment = noted("5", "late");
                    let error = db.save(&mut stale).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    assert!(error.path().unwrap().starts_with("payment"), "{error}");
                    assert_eq!(raw(&db, $collection).await, written(&order(1, other.clone(), &expected.parts)));

                    // And a save that changes the variant does not write over what was changed in the other.
                    payment().set(|o| o.payment(), card("5")).await.unwrap();
                    let mut stale = db.edit::<Order>(1).await.unwrap();
                    payment().set(|o| o.payment().card(|c| c.note()), "soon").await.unwrap();
                    stale.payment = other.clone();
                    assert_eq!(db.save(&mut stale).await.unwrap_err().kind(), ErrorKind::Conflict);
                }
                let modified = db.modify::<Order>(1, |order| order.payment = Payment::Cash).await.unwrap();
                assert_eq!(modified.payment, Payment::Cash);
                // Others may write elsewhere.
                let mut edited = db.edit::<Order>(1).await.unwrap();
                db.update::<Order>(1).push(|o| o.parts(), Payment::Cash).await.unwrap();
                edited.payment = card("8");
                db.save(&mut edited).await.unwrap();
                let parts = [card("1"), invoice("4"), Payment::Cash];
                assert_eq!(raw(&db, $collection).await, written(&order(1, card("8"), &parts)));
            }

            pub(super) async fn misread(fixture: &Fixture) -> Error {
                let db = Db::with_backend(fixture.backend());
                let mut document: bson::Document = written(&order(1, card("1"), &[card("1"), card("2")])).try_into().unwrap();
                let known = bson::serialize_to_bson(&card("2")).unwrap();
                let parts = document.get_array_mut("parts").unwrap();
                let Bson::Document(mut unknown) = known else { panic!("{known}") };
                match unknown.get_mut("type") {
                    Some(tag) => *tag = "cheque".into(),
                    None => unknown = doc! { "cheque": {} },
                }
                parts[1] = unknown.into();
                let insert = operation::Insert {
                    collection: $collection.into(),
                    documents: vec![RawDocumentBuf::try_from(&document).unwrap()],
                    ordered: true,
                };
                db.backend().insert(insert).await.unwrap();
                let error = db.get::<Order>(1).await.unwrap_err();
                assert_eq!(error.collection(), Some($collection));
                error
            }
        })*
    };
}

representations! {
    external: "external" "payment.card.unknown";
    internal: "internal" "payment.unknown" tag = "type";
    adjacent: "adjacent" "payment.data.unknown" tag = "type" content = "data";
}

pub async fn a_variant_is_asked_for(fixture: Fixture) {
    external::asked_for(&fixture).await;
    internal::asked_for(&fixture).await;
    adjacent::asked_for(&fixture).await;
}

pub async fn an_update_in_a_variant_is_conditional(fixture: Fixture) {
    external::updated(&fixture).await;
    internal::updated(&fixture).await;
    adjacent::updated(&fixture).await;
}

pub async fn updates_at_once_mix_no_variants(fixture: Fixture) {
    external::updated_at_once(&fixture).await;
    internal::updated_at_once(&fixture).await;
    adjacent::updated_at_once(&fixture).await;
}

pub async fn a_save_mixes_no_variants(fixture: Fixture) {
    external::saved(&fixture).await;
    internal::saved(&fixture).await;
    adjacent::saved(&fixture).await;
}

pub async fn an_unknown_variant_is_named(fixture: Fixture) {
    for error in [
        external::misread(&fixture).await,
        internal::misread(&fixture).await,
        adjacent::misread(&fixture).await,
    ] {
        assert!(error.is_decode());
        assert_eq!(error.id(), Some(&Bson::Int64(1)));
        assert!(error.path().unwrap().starts_with("parts.1"), "{error}");
        let text = error.to_string();
        for part in [
            "unknown variant `cheque`",
            "expected one of `card`, `invoice`, `cash`",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

fn shown(document: &RawDocumentBuf) -> String {
    bson::Document::try_from(document.clone())
        .unwrap()
        .to_string()
}

/// What serde writes.
fn written<T: Serialize>(value: &T) -> RawDocumentBuf {
    RawDocumentBuf::from_bytes(bson::serialize_to_vec(value).unwrap()).unwrap()
}

async fn raw<S: Schema>(db: &Database<S>, collection: &'static str) -> RawDocumentBuf {
    let find = operation::Find {
        collection: collection.into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        max_time: None,
    };
    let found = drain(db.backend().find(find).await.unwrap()).await;
    found.unwrap().pop().unwrap()
}

/// Another program writes a field that the model does not know.
async fn put<S: Schema>(db: &Database<S>, collection: &'static str, path: &str) {
    let update = doc! { "$set": { path: 1 } };
    let update = operation::Update {
        collection: collection.into(),
        filter: rawdoc! {},
        change: operation::Change::operators(RawDocumentBuf::try_from(&update).unwrap()),
        multi: false,
        upsert: false,
    };
    assert_eq!(db.backend().update(update).await.unwrap().modified, 1);
}
