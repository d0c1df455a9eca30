use odm::{
    Database, Error, ErrorKind, Filter,
    backend::{operation, read_to_end},
    bson::{Bson, RawDocumentBuf, doc, rawdoc},
    prelude::*,
};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Invoice {
    pub number: String,
    pub due: i64,
}

/// Defines a module for each serde representation of enums, with the same models and tests.
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

            fn card_with_note(number: &str, note: &str) -> Payment {
                Payment::Card { number: number.into(), note: Some(note.into()) }
            }

            fn invoice(number: &str) -> Payment {
                Payment::Invoice(Invoice { number: number.into(), due: 30 })
            }

            fn order(id: i64, payment: Payment, parts: &[Payment]) -> Order {
                Order { id, payment, second: None, parts: parts.to_vec() }
            }

            pub(super) async fn variants_are_found(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                let second = Some(card("1"));
                db.insert_many([
                    order(1, card("1"), &[card("2"), invoice("1")]),
                    order(2, invoice("1"), &[card_with_note("1", "n"), Payment::Cash]),
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
                // Both variants have a field `number`.
                assert_eq!(ids(p.card(|c| c.number().eq("1"))).await, [1]);
                assert_eq!(ids(p.invoice(|i| i.number().eq("1") & i.due().gt(10))).await, [2]);
                assert_eq!(ids(!p.card(|c| c.number().eq("1"))).await, [2, 3, 4]);
                assert_eq!(ids(p.card(|c| !c.number().eq("1"))).await, [4]);
                assert_eq!(ids(p.card(|c| c.number().eq("1") | c.number().eq("2"))).await, [1, 4]);
                assert_eq!(ids(p.card(|c| c.note().is_none())).await, [1, 4]);
                assert_eq!(ids(p.card(|_| None)).await, [1, 4]);
                assert_eq!(ids(p.card(|_| Filter::all())).await, [1, 4]);
                // Compare whole values.
                assert_eq!(ids(p.eq(invoice("1"))).await, [2]);
                assert_eq!(ids(p.ne(Payment::Cash)).await, [1, 2, 4]);
                assert_eq!(ids(p.is_in([card("2"), Payment::Cash])).await, [3, 4]);
                // An optional enum.
                assert_eq!(ids(o.second().is_card()).await, [3]);
                assert_eq!(ids(o.second().card(|c| c.number().eq("1"))).await, [3]);
                assert_eq!(ids(o.second().is_none()).await, [1, 2, 4]);
                // In an array, a single element must have the variant and match the condition.
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
                // An update by id returns whether the update applied.
                let second = |id| db.update::<Order>(id)
                    .inc(|o| o.payment().invoice(|i| i.due()), 1)
                    .set(|o| o.second(), card("second"));
                for (id, applies) in [(1, false), (2, true), (3, false)] {
                    assert_eq!(second(id).await.unwrap().is_applied(), applies, "{id}");
                }
                assert!(second(4).await.unwrap_err().is_not_found());
                let done = db.update::<Order>(1)
                    .set(|o| o.parts().at(1).invoice(|i| i.number()), "8")
                    .set(|o| o.parts().at(0).card(|c| c.note()), "n")
                    .await;
                assert!(done.unwrap().is_applied());
                let done = db.update::<Order>(2).set(|o| o.parts().at(1).invoice(|i| i.number()), "8").await;
                assert!(!done.unwrap().is_applied());
                let done = db.update::<Order>(2).pull_where(|o| o.parts(), |x| x.card(|c| c.number().eq("1"))).await;
                assert!(done.unwrap().is_applied());
                db.update::<Order>(3).set(|o| o.payment(), invoice("9")).push(|o| o.parts(), Payment::Cash).await.unwrap();

                let second = Some(card("second"));
                let second_payment = Payment::Invoice(Invoice { number: "1".into(), due: 31 });
                assert_eq!(db.find::<Order>().sort(|o| o.id().asc()).all().await.unwrap(), [
                    order(1, card("7"), &[card_with_note("1", "n"), invoice("8")]),
                    Order { second, ..order(2, second_payment, &[Payment::Cash]) },
                    order(3, invoice("9"), &[Payment::Cash]),
                ]);
            }

            /// Concurrent tasks change the variant and fields of the variant. No document mixes fields of two variants.
            pub(super) async fn update_concurrently(fixture: &Fixture) {
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
                                    let payments = [invoice("i"), Payment::Cash, card("c")];
                                    let done = update.set(|o| o.payment(), &payments[n % 3]).await;
                                    assert!(done.unwrap().is_applied());
                                }
                                1 => {
                                    update.set(|o| o.payment().card(|c| c.note()), "n").await.unwrap();
                                }
                                _ => {
                                    update.inc(|o| o.payment().invoice(|i| i.due()), 1).await.unwrap();
                                }
                            }
                            let payment = raw(&db, $collection).await.get_document("payment").map(|payment| payment.to_owned());
                            // A card has no field `due`, and an invoice no field `note`. So the decoded value must have all
                            // stored fields.
                            if let Ok(stored) = payment {
                                let stored: bson::Document = stored.try_into().unwrap();
                                let read: Payment = bson::deserialize_from_document(stored.clone()).unwrap();
                                let second = bson::serialize_to_document(&read).unwrap();
                                assert_eq!(stored.len(), second.len(), "{stored}");
                                assert!(second.keys().all(|key| stored.contains_key(key)), "{stored}");
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
                db.insert(order(1, card_with_note("1", "n"), &[card("1"), card("2")])).await.unwrap();
                // A save keeps unknown fields of a variant, and removes the unknown fields together with the variant.
                set_unknown_field(&db, $collection, $unknown).await;
                let mut edited = db.edit::<Order>(1).await.unwrap();
                edited.payment = card_with_note("2", "n");
                db.save(&mut edited).await.unwrap();
                assert!(stored_text(&raw(&db, $collection).await).contains("unknown"));
                edited.payment = invoice("3");
                db.save(&mut edited).await.unwrap();
                assert!(!stored_text(&raw(&db, $collection).await).contains("unknown"));
                assert_eq!(db.get::<Order>(1).await.unwrap(), *edited);
                edited.parts[1] = invoice("4");
                edited.payment = Payment::Cash;
                db.save(&mut edited).await.unwrap();
                edited.payment = card_with_note("5", "m");
                db.save(&mut edited).await.unwrap();
                let expected = order(1, card_with_note("5", "m"), &[card("1"), invoice("4")]);
                assert_eq!(*edited, expected);
                assert_eq!(raw(&db, $collection).await, serialized(&expected));

                // A save conflicts with a concurrent change of the variant, even if both writes set different fields.
                for other in [invoice("6"), Payment::Cash] {
                    let payment = || db.update::<Order>(1);
                    payment().set(|o| o.payment(), card("5")).await.unwrap();
                    let mut stale = db.edit::<Order>(1).await.unwrap();
                    payment().set(|o| o.payment(), &other).await.unwrap();
                    stale.payment = card_with_note("5", "late");
                    let error = db.save(&mut stale).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    assert!(error.path().unwrap().starts_with("payment"), "{error}");
                    assert_eq!(raw(&db, $collection).await, serialized(&order(1, other.clone(), &expected.parts)));

                    // A save with a new variant conflicts with a concurrent change of the old variant.
                    payment().set(|o| o.payment(), card("5")).await.unwrap();
                    let mut stale = db.edit::<Order>(1).await.unwrap();
                    payment().set(|o| o.payment().card(|c| c.note()), "soon").await.unwrap();
                    stale.payment = other.clone();
                    assert_eq!(db.save(&mut stale).await.unwrap_err().kind(), ErrorKind::Conflict);
                }
                let modified = db.modify::<Order>(1, |order| order.payment = Payment::Cash).await.unwrap();
                assert_eq!(modified.payment, Payment::Cash);
                // A concurrent write to a different field is no conflict.
                let mut edited = db.edit::<Order>(1).await.unwrap();
                db.update::<Order>(1).push(|o| o.parts(), Payment::Cash).await.unwrap();
                edited.payment = card("8");
                db.save(&mut edited).await.unwrap();
                let parts = [card("1"), invoice("4"), Payment::Cash];
                assert_eq!(raw(&db, $collection).await, serialized(&order(1, card("8"), &parts)));
            }

            pub(super) async fn read_unknown_variant(fixture: &Fixture) -> Error {
                let db = Db::with_backend(fixture.backend());
                let mut document: bson::Document = serialized(&order(1, card("1"), &[card("1"), card("2")])).try_into().unwrap();
                let known = bson::serialize_to_bson(&card("2")).unwrap();
                let parts = document.get_array_mut("parts").unwrap();
                let Bson::Document(mut unknown) = known else { panic!("{known}") };
                match unknown.get_mut("type") {
                    Some(tag) => *tag = "cheque".into(),
                    None => unknown = doc! { "cheque": {} },
                }
                parts[1] = unknown.into();
                let insert = operation::InsertOperation {
                    collection: $collection.into(),
                    documents: vec![RawDocumentBuf::try_from(&document).unwrap()],
                    ordered: true, origin: Default::default(),
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

pub async fn filters_match_variants(fixture: Fixture) {
    external::variants_are_found(&fixture).await;
    internal::variants_are_found(&fixture).await;
    adjacent::variants_are_found(&fixture).await;
}

pub async fn an_update_in_a_variant_is_conditional(fixture: Fixture) {
    external::updated(&fixture).await;
    internal::updated(&fixture).await;
    adjacent::updated(&fixture).await;
}

pub async fn concurrent_updates_mix_no_variants(fixture: Fixture) {
    external::update_concurrently(&fixture).await;
    internal::update_concurrently(&fixture).await;
    adjacent::update_concurrently(&fixture).await;
}

pub async fn a_save_mixes_no_variants(fixture: Fixture) {
    external::saved(&fixture).await;
    internal::saved(&fixture).await;
    adjacent::saved(&fixture).await;
}

pub async fn an_unknown_variant_is_reported(fixture: Fixture) {
    for error in [
        external::read_unknown_variant(&fixture).await,
        internal::read_unknown_variant(&fixture).await,
        adjacent::read_unknown_variant(&fixture).await,
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

fn stored_text(document: &RawDocumentBuf) -> String {
    bson::Document::try_from(document.clone())
        .unwrap()
        .to_string()
}

/// Returns the document that serde writes.
fn serialized<T: Serialize>(value: &T) -> RawDocumentBuf {
    RawDocumentBuf::from_bytes(bson::serialize_to_vec(value).unwrap()).unwrap()
}

async fn raw<S: Schema>(db: &Database<S>, collection: &'static str) -> RawDocumentBuf {
    let find = operation::FindOperation {
        collection: collection.into(),
        filter: rawdoc! {},
        projection: None,
        sort: None,
        limit: None,
        options: Default::default(),
    };
    let found = read_to_end(db.backend().find(find).await.unwrap()).await;
    found.unwrap().pop().unwrap()
}

/// Writes a field that the model does not declare, like a different application.
async fn set_unknown_field<S: Schema>(db: &Database<S>, collection: &'static str, path: &str) {
    let update = doc! { "$set": { path: 1 } };
    let update = operation::UpdateOperation {
        collection: collection.into(),
        filter: rawdoc! {},
        change: operation::DocumentChange::operators(RawDocumentBuf::try_from(&update).unwrap()),
        multi: false,
        upsert: false,
        origin: Default::default(),
    };
    assert_eq!(db.backend().update(update).await.unwrap().modified, 1);
}
