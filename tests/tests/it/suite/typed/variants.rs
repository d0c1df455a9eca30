//! Variants of enums in queries and updates: conditions on elements, nested arrays, pages, projections, expressions, bulks, and
//! values of foreign crates.

use chrono::{DateTime, TimeZone, Utc};
use odm::{
    ErrorKind, Filter,
    action::{ByIdWhen, PageToken, Update},
    prelude::*,
};
use rust_decimal::{Decimal, dec};

use crate::Fixture;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Item {
    pub name: String,
    pub sent: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
pub struct Stay {
    #[serde(with = "odm::native")]
    pub from: DateTime<Utc>,
    #[serde(with = "odm::native")]
    pub price: Decimal,
}

fn item(name: &str, sent: bool) -> Item {
    let name = name.into();
    Item { name, sent }
}

/// Returns a date to the millisecond, the precision of BSON dates.
fn date(secs: i64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(secs * 1000 + 123).unwrap()
}

/// Makes a module for each enum representation of serde, with the same models and tests.
macro_rules! representations {
    ($($name:ident: $collection:literal $($serde:meta)*;)*) => {
        $(mod $name {
            use super::*;

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
            $(#[serde($serde)])*
            pub(super) enum Payment {
                Card {
                    number: String,
                    votes: i64,
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    note: Option<String>,
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    former: Option<String>,
                    #[embed(max = 3)]
                    items: Vec<Item>,
                },
                Dated {
                    #[serde(with = "odm::native")]
                    at: DateTime<Utc>,
                    #[serde(default, with = "odm::native")]
                    until: Option<DateTime<Utc>>,
                    #[serde(with = "odm::native")]
                    #[embed(max = 2)]
                    calls: Vec<jiff::Timestamp>,
                },
                Stay(Stay),
                Cash,
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(collection = $collection)]
            pub(super) struct Order {
                #[serde(rename = "_id")]
                pub id: i64,
                #[embed]
                pub payment: Payment,
                pub note: Option<String>,
                #[embed(max = 5)]
                pub parts: Vec<Payment>,
                #[embed(unbounded)]
                pub rows: Vec<Vec<Payment>>,
            }

            #[derive(Debug, PartialEq, Deserialize, Projection)]
            #[projection(of = Order)]
            struct Paid {
                payment: Payment,
            }

            #[derive(Schema)]
            #[schema(models(Order))]
            pub(super) struct Shop;

            type Db = odm::Database<Shop>;

            fn card(number: &str, items: &[Item]) -> Payment {
                Payment::Card { number: number.into(), votes: 0, note: None, former: None, items: items.to_vec() }
            }

            fn order(id: i64, payment: Payment) -> Order {
                Order { id, payment, note: None, parts: Vec::new(), rows: Vec::new() }
            }

            async fn ids(db: &Db, filter: Filter<Order>) -> Vec<i64> {
                let orders = db.find::<Order>().filter(|_| filter).sort(|o| o.id().asc()).all().await.unwrap();
                orders.into_iter().map(|order| order.id).collect()
            }

            async fn payment(db: &Db, id: i64) -> Payment {
                db.get::<Order>(id).await.unwrap().payment
            }

            async fn parts(db: &Db) -> Vec<Payment> {
                db.get::<Order>(1).await.unwrap().parts
            }

            pub(super) async fn elements(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                let all = [card("1", &[]), Payment::Cash, card("2", &[])];
                db.insert(Order { parts: all.to_vec(), ..order(1, Payment::Cash) }).await.unwrap();
                let update = || db.update::<Order>(1);
                let other = card("3", &[]);
                // An array filter selects the elements that meet a condition on a variant.
                update()
                    .set(|o| o.parts().matching(|x| x.is_cash() | x.card(|c| c.number().eq("1"))), &other)
                    .await
                    .unwrap();
                assert_eq!(parts(&db).await, [other.clone(), other.clone(), card("2", &[])]);
                update().set(|o| o.parts().matching(|x| x.card(|c| !c.number().eq("2"))), Payment::Cash).await.unwrap();
                assert_eq!(parts(&db).await, [Payment::Cash, Payment::Cash, card("2", &[])]);
                update().set(|o| o.parts().matching(|x| !x.is_cash()), &other).await.unwrap();
                assert_eq!(parts(&db).await, [Payment::Cash, Payment::Cash, other.clone()]);
                // The first matching element.
                let done = update().set(|o| o.parts().first_matching(|x| x.is_card()), card("4", &[])).await.unwrap();
                assert!(done.is_applied());
                let done = update().set(|o| o.parts().first_matching(|x| x.is_cash()), card("5", &[])).await.unwrap();
                assert!(done.is_applied());
                assert_eq!(parts(&db).await, [card("5", &[]), Payment::Cash, card("4", &[])]);
                let done = update().set(|o| o.parts().first_matching(|x| x.is_stay()), Payment::Cash).await.unwrap();
                assert!(!done.is_applied());
                // A second condition on an element is refused before sending. MongoDB could use that condition to choose the
                // first match.
                let error = update()
                    .set(|o| o.parts().first_matching(|x| x.is_cash()), card("6", &[]))
                    .when(|o| o.parts().is_card())
                    .await
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
            }

            pub(super) async fn inside(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                let items = [item("a", false), item("b", true), item("c", false)];
                db.insert_many([order(1, card("1", &items)), order(2, Payment::Cash)]).await.unwrap();
                // An update of all documents matches only the document with a card.
                let all = || db.update_many::<Order>(|_| Filter::all());
                let done = all()
                    .set(|o| o.payment().card(|c| c.items().matching(|i| i.sent().eq(false)).name()), "x")
                    .await
                    .unwrap();
                assert_eq!((done.matched, done.modified), (1, 1));
                let done = all()
                    .set(|o| o.payment().card(|c| c.items().first_matching(|i| i.name().eq("x")).sent()), true)
                    .await
                    .unwrap();
                assert_eq!((done.matched, done.modified), (1, 1));
                assert_eq!(payment(&db, 1).await, card("1", &[item("x", true), item("b", true), item("x", false)]));
                // A push with modifiers, and a push beyond the bound.
                let full = db.update::<Order>(1).push(|o| o.payment().card(|c| c.items()), item("d", true)).await;
                assert_eq!(full.unwrap_err().kind(), ErrorKind::TooManyElements);
                for id in [1, 2] {
                    let done = db.update::<Order>(id)
                        .push_with(|o| o.payment().card(|c| c.items()), [item("d", true)], |push| push.keep_last(2))
                        .await
                        .unwrap();
                    assert_eq!(done.is_applied(), id == 1);
                    // A document without a card is not checked against the bound.
                    let many = [item("e", true), item("f", true), item("g", true)];
                    let done = db.update::<Order>(id).push_each(|o| o.payment().card(|c| c.items()), many).await;
                    assert_eq!(done.is_ok(), id == 2, "{done:?}");
                }
                assert_eq!(payment(&db, 1).await, card("1", &[item("x", false), item("d", true)]));
                // A rename into a variant, inside a variant and out of a variant.
                for id in [1, 2] {
                    let update = || db.update::<Order>(id);
                    update().set(|o| o.note(), "n").await.unwrap();
                    let into = update().rename(|o| o.note(), |o| o.payment().card(|c| c.note())).await.unwrap();
                    let within = update()
                        .rename(|o| o.payment().card(|c| c.note()), |o| o.payment().card(|c| c.former()))
                        .await
                        .unwrap();
                    let applied = [into.is_applied(), within.is_applied()];
                    assert_eq!(applied, [id == 1; 2]);
                }
                assert_eq!(ids(&db, Order::fields().payment().card(|c| c.former().eq("n") & c.note().is_none())).await, [1]);
                let two = Order { note: Some("n".into()), ..order(2, Payment::Cash) };
                assert_eq!(db.get::<Order>(2).await.unwrap(), two);
                let done = db.update::<Order>(1).rename(|o| o.payment().card(|c| c.former()), |o| o.note()).await.unwrap();
                assert!(done.is_applied());
                assert_eq!(db.get::<Order>(1).await.unwrap().note.as_deref(), Some("n"));
                // An update that returns the document, and an update of the first match.
                let votes = |update: Update<Order, ByIdWhen>| update.inc(|o| o.payment().card(|c| c.votes()), 1);
                let one = votes(db.update::<Order>(1).when(|o| o.note().is_some())).returning_after().await.unwrap();
                let Payment::Card { votes: 1, .. } = one.expect_applied().unwrap().payment else { panic!("no card") };
                let none = votes(db.update::<Order>(2).when(|o| o.note().is_some())).returning_after().await.unwrap();
                assert!(none.expect_applied().is_err());
                let first = db.update_first::<Order>(|_| Filter::all()).sort(|o| o.id().desc()).set(|o| o.payment().card(|c| c.number()), "9").await;
                assert_eq!(first.unwrap().expect_applied().unwrap().into_id(), 1);
                // Updates in a bulk.
                let mut bulk = db.bulk();
                for id in [1, 2] {
                    bulk = bulk.add(db.update::<Order>(id).set(|o| o.payment().card(|c| c.number()), "b"));
                }
                let report = bulk.await.unwrap();
                assert!(report.is_ok(), "{report:?}");
                assert_eq!(ids(&db, Order::fields().payment().card(|c| c.number().eq("b"))).await, [1]);
                assert_eq!(payment(&db, 2).await, Payment::Cash);
            }

            pub(super) async fn refused(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                db.insert(order(1, Payment::Cash)).await.unwrap();
                for id in [1, 2] {
                    let error = db.update::<Order>(id)
                        .set(|o| o.payment().card(|c| c.number()), "7")
                        .or_insert(order(id, card("7", &[])))
                        .await
                        .unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Invalid);
                    assert!(error.to_string().contains("variant"), "{error}");
                }
                let compared = db.find::<Order>().filter(|o| o.payment().card(|c| c.votes().value().gt(1))).all().await;
                let error = compared.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
                assert!(error.to_string().contains("variant") && error.path().is_some(), "{error}");
                assert_eq!(db.find::<Order>().all().await.unwrap(), [order(1, Payment::Cash)]);
            }

            pub(super) async fn read(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                let rows = |rows: &[&[Payment]]| rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
                db.insert_many([
                    Order { rows: rows(&[&[Payment::Cash], &[card("1", &[])]]), ..order(1, card("1", &[])) },
                    Order { rows: rows(&[&[Payment::Cash, card("2", &[])]]), ..order(2, Payment::Cash) },
                    Order { rows: rows(&[&[], &[Payment::Cash]]), ..order(3, card("3", &[])) },
                    order(4, card("4", &[])),
                ]).await.unwrap();
                // An array inside an array.
                let o = Order::fields();
                assert_eq!(ids(&db, o.rows().is_card()).await, [1, 2]);
                assert_eq!(ids(&db, o.rows().is_cash()).await, [1, 2, 3]);
                assert_eq!(ids(&db, !o.rows().is_card()).await, [3, 4]);
                assert_eq!(ids(&db, o.rows().any(|row| row.is_cash() & row.is_card())).await, [2]);
                assert_eq!(ids(&db, o.rows().any(|row| row.is_cash() & !row.is_card())).await, [1, 3]);
                assert_eq!(ids(&db, o.rows().any(|row| row.any(|x| x.card(|c| c.number().eq("2"))))).await, [2]);
                assert_eq!(ids(&db, o.rows().at(0).is_card()).await, [2]);
                // Pages of documents with one variant, projected to the enum.
                let page = |after: Option<PageToken>| {
                    let cards = db.find::<Order>().filter(|o| o.payment().is_card()).select::<Paid>();
                    cards.sort(|o| o.id().desc()).page(2).after(after)
                };
                let first = page(None).await.unwrap();
                let second = page(first.next.clone()).await.unwrap();
                let numbers = [&first.items[..], &second.items[..]].concat_numbers();
                assert_eq!(numbers, ["4", "3", "1"]);
                // A sum over the documents that are not `Cash`.
                let sum: i64 = db.find::<Order>().filter(|o| !o.payment().is_cash()).sum(|o| o.id()).await.unwrap();
                assert_eq!(sum, 8);
            }

            trait Numbers {
                fn concat_numbers(&self) -> Vec<String>;
            }
            impl Numbers for [&[Paid]; 2] {
                fn concat_numbers(&self) -> Vec<String> {
                    let number = |paid: &Paid| match &paid.payment {
                        Payment::Card { number, .. } => number.clone(),
                        other => panic!("{other:?}"),
                    };
                    self.iter().flat_map(|paid| paid.iter()).map(number).collect()
                }
            }

            pub(super) async fn native(fixture: &Fixture) {
                let db = Db::with_backend(fixture.backend());
                let calls = vec![jiff::Timestamp::from_second(7).unwrap()];
                let dated = Payment::Dated { at: date(5), until: Some(date(6)), calls };
                let stay = Payment::Stay(Stay { from: date(9), price: dec!(120.50) });
                let open = Payment::Dated { at: date(8), until: None, calls: Vec::new() };
                let orders = [order(1, dated.clone()), order(2, stay.clone()), order(3, open)];
                assert_eq!(db.insert_many(orders.clone()).await.unwrap(), orders);
                assert_eq!(db.find::<Order>().sort(|o| o.id().asc()).all().await.unwrap(), orders);
                let p = Order::fields().payment();
                assert_eq!(ids(&db, p.eq(&dated)).await, [1]);
                assert_eq!(ids(&db, p.eq(&stay)).await, [2]);
                assert_eq!(ids(&db, p.dated(|d| d.at().lt(date(6)))).await, [1]);
                assert_eq!(ids(&db, p.dated(|d| d.until().is_none())).await, [3]);
                assert_eq!(ids(&db, p.stay(|s| s.from().eq(date(9)) & s.price().lt(dec!(121)))).await, [2]);
                db.update::<Order>(3).set(|o| o.payment().dated(|d| d.until()), date(10)).await.unwrap();
                assert_eq!(ids(&db, p.dated(|d| d.until().eq(date(10)))).await, [3]);
                // JSON keeps the text form of the date types.
                let json = serde_json::to_string(&orders).unwrap();
                assert!(json.contains("\"1970-01-01T00:00:05.123Z\""), "{json}");
                assert_eq!(serde_json::from_str::<Vec<Order>>(&json).unwrap(), orders);
            }
        })*
    };
}

representations! {
    external: "external";
    internal: "internal" tag = "type";
    adjacent: "adjacent" tag = "type" content = "data";
}

pub async fn elements_of_a_variant_are_updated(fixture: Fixture) {
    external::elements(&fixture).await;
    internal::elements(&fixture).await;
    adjacent::elements(&fixture).await;
}

pub async fn updates_inside_a_variant_are_conditional(fixture: Fixture) {
    external::inside(&fixture).await;
    internal::inside(&fixture).await;
    adjacent::inside(&fixture).await;
}

pub async fn unsupported_variant_updates_are_errors(fixture: Fixture) {
    external::refused(&fixture).await;
    internal::refused(&fixture).await;
    adjacent::refused(&fixture).await;
}

pub async fn variants_are_read_in_rows_and_pages(fixture: Fixture) {
    external::read(&fixture).await;
    internal::read(&fixture).await;
    adjacent::read(&fixture).await;
}

pub async fn native_types_work_in_variants(fixture: Fixture) {
    external::native(&fixture).await;
    internal::native(&fixture).await;
    adjacent::native(&fixture).await;
}
