//! The conditions on the children of rollups.

use odm::{ErrorKind, prelude::*};

use crate::Fixture;

fn date(days: i64) -> DateTime {
    DateTime::from_millis(days * 86_400_000)
}

const FEE: i64 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "accounts")]
struct Account {
    #[serde(rename = "_id")]
    id: i64,
    #[count(of = Payment::account, when(at >= date(10), at < date(20)))]
    within: i64,
    #[sum(of = Payment::account, value = amount, when(amount > FEE))]
    incoming: i64,
    #[count(of = Payment::account, when(amount <= FEE))]
    small: i64,
    #[count(of = Payment::account, when(paid < date(15)))]
    early: i64,
    #[count(of = Payment::account, when(paid != None))]
    paid: i64,
    #[count(of = Payment::account, when(paid != date(12)))]
    other_day: i64,
    #[count(of = Payment::account, when(state != State::Open, details.weight > 1.5))]
    heavy: i64,
    #[count(of = Payment::account, when(details.weight <= 1.5))]
    light: i64,
    #[latest(9, of = Payment::account, by = id, when(details.weight != f64::NAN))]
    weighed: Vec<Excerpt>,
    #[avg(of = Payment::account, value = amount, when(name >= "m"))]
    average: Option<f64>,
    #[min(of = Payment::account, value = paid, when(paid >= date(12)))]
    first_paid: Option<DateTime>,
    #[latest(2, of = Payment::account, by = at, when(name > "b", name != "m"))]
    latest: Vec<Excerpt>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[embedded(of = Payment)]
struct Excerpt {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
#[document(collection = "payments")]
struct Payment {
    #[serde(rename = "_id")]
    id: i64,
    #[reference]
    account: Ref<Account>,
    at: DateTime,
    paid: Option<DateTime>,
    amount: i64,
    name: String,
    state: State,
    #[embed]
    details: Details,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Embedded)]
enum State {
    Open,
    Done,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
struct Details {
    weight: Option<f64>,
}

#[derive(Schema)]
#[schema(models(Account, Payment))]
struct Bank;
type Db = odm::Database<Bank>;

/// Values on both sides of each boundary, and on the boundary.
fn payment(id: i64, account: i64) -> Payment {
    // Both signs of NaN.
    let nan = if id % 2 == 0 { f64::NAN } else { -f64::NAN };
    let weights = [None, Some(nan), Some(1.5), Some(1.6), Some(-2.0)];
    let position = |length: usize| usize::try_from(id).unwrap() % length;
    Payment {
        id,
        account: Ref::new(account),
        at: date(8 + id % 14),
        paid: (id % 4 > 0).then(|| date(10 + id % 7)),
        amount: id % 7,
        name: ["a", "b", "c", "m", "n"][position(5)].into(),
        state: [State::Open, State::Done][position(2)],
        details: Details {
            weight: weights[position(weights.len())],
        },
    }
}

/// Asserts that the rollups of an account follow from the payments.
async fn assert_exact(db: &Db, account: i64, when: &str) {
    db.wait_for_pending().await.unwrap();
    let found = db
        .find::<Payment>()
        .sort(|p| (p.at().desc(), p.id().desc()));
    let payments: Vec<_> = found.all().await.unwrap();
    let payments: Vec<_> = payments
        .iter()
        .filter(|payment| *payment.account.id() == account)
        .collect();
    let count = |test: &dyn Fn(&Payment) -> bool| {
        let matching = payments.iter().filter(|payment| test(payment));
        i64::try_from(matching.count()).unwrap()
    };
    let weight = |payment: &Payment| payment.details.weight.unwrap_or(f64::NAN);
    let late = payments
        .iter()
        .filter(|payment| payment.name.as_str() >= "m");
    let amounts: Vec<_> = late.map(|payment| payment.amount).collect();
    let average =
        (!amounts.is_empty()).then(|| amounts.iter().sum::<i64>() as f64 / amounts.len() as f64);
    let paid = payments.iter().filter_map(|payment| payment.paid);
    let listed = payments
        .iter()
        .filter(|payment| payment.name.as_str() > "b" && payment.name != "m");
    let expected = Account {
        id: account,
        within: count(&|payment| payment.at >= date(10) && payment.at < date(20)),
        incoming: payments
            .iter()
            .map(|payment| payment.amount)
            .filter(|amount| *amount > 3)
            .sum(),
        small: count(&|payment| payment.amount <= 3),
        early: count(&|payment| payment.paid.is_some_and(|paid| paid < date(15))),
        paid: count(&|payment| payment.paid.is_some()),
        other_day: count(&|payment| payment.paid != Some(date(12))),
        heavy: count(&|payment| payment.state != State::Open && weight(payment) > 1.5),
        light: count(&|payment| weight(payment) <= 1.5),
        weighed: Vec::new(),
        average,
        first_paid: paid.filter(|paid| *paid >= date(12)).min(),
        latest: listed
            .take(2)
            .map(|payment| Excerpt {
                name: payment.name.clone(),
            })
            .collect(),
    };
    let mut account = db.get::<Account>(account).await.unwrap();
    let mut weighed = payments.clone();
    weighed.sort_by_key(|payment| -payment.id);
    weighed.retain(|payment| payment.details.weight.is_none_or(|weight| !weight.is_nan()));
    let names = weighed.iter().map(|payment| payment.name.clone()).take(9);
    let listed = account.weighed.iter().map(|excerpt| excerpt.name.clone());
    assert_eq!(
        listed.collect::<Vec<_>>(),
        names.collect::<Vec<_>>(),
        "{when}"
    );
    account.weighed.clear();
    assert_eq!(account, expected, "{when}");
}

async fn assert_clean(db: &Db) {
    let report = db.check().await.unwrap();
    assert!(report.is_clean(), "{report}");
}

pub async fn conditions_compare_values(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    db.sync_indexes().await.unwrap();
    db.insert(NewAccount { id: 1 }).await.unwrap();
    let payments = (0..40).map(|id| payment(id, 1 + id % 2));
    db.insert_many(payments).await.unwrap();
    assert_exact(&db, 1, "after the inserts").await;
    // A new account finds its children by queries.
    db.insert(NewAccount { id: 2 }).await.unwrap();
    assert_exact(&db, 2, "after the insert of the parent").await;
    assert_clean(&db).await;

    // Values cross the boundaries, and get null and NaN.
    for (id, shift) in [(2, 5), (10, 1), (22, 9), (30, 3), (38, 2)] {
        let other = payment(id + shift, 1);
        db.update::<Payment>(id)
            .set(|p| p.at(), other.at)
            .set(|p| p.paid(), other.paid)
            .set(|p| p.amount(), other.amount)
            .set(|p| p.name(), other.name)
            .set(|p| p.details().weight(), other.details.weight)
            .await
            .unwrap();
    }
    assert_exact(&db, 1, "after the updates").await;
    db.update_many::<Payment>(|p| p.amount().gt(2))
        .inc(|p| p.amount(), -2)
        .set(|p| p.paid(), date(14))
        .await
        .unwrap();
    // The lists lose their entries.
    let latest = db.find::<Payment>().sort(|p| p.at().desc()).limit(12);
    let latest: Vec<_> = latest.all().await.unwrap();
    let ids = latest.into_iter().map(|payment| payment.id);
    db.delete_many::<Payment>(|p| p.id().is_in(ids))
        .await
        .unwrap();
    for account in [1, 2] {
        assert_exact(&db, account, "after the deletes").await;
    }
    assert_clean(&db).await;
}

/// A comparison with `None` selects no order.
mod without_value {
    use super::*;

    const NO_DATE: Option<DateTime> = None;

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "plans")]
    pub(super) struct Plan {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[count(of = Step::plan, when(due < NO_DATE))]
        pub(super) late: i64,
    }

    #[derive(Debug, Serialize, Deserialize, Document)]
    #[document(collection = "steps")]
    pub(super) struct Step {
        #[serde(rename = "_id")]
        pub(super) id: i64,
        #[reference]
        pub(super) plan: Ref<Plan>,
        pub(super) due: Option<DateTime>,
    }

    #[derive(Schema)]
    #[schema(models(Plan, Step))]
    pub(super) struct Plans;
}

pub async fn a_comparison_with_none_is_an_error(fixture: Fixture) {
    let db = odm::Database::<without_value::Plans>::with_backend(fixture.backend());
    db.insert(without_value::NewPlan { id: 1 }).await.unwrap();
    let step = without_value::Step {
        id: 1,
        plan: Ref::new(1),
        due: None,
    };
    let error = db.insert(step).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Invalid, Some("due"))
    );
    assert_eq!(db.find::<without_value::Step>().count().await.unwrap(), 0);
}
