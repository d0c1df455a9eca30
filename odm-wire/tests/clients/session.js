// An ordinary session of the Node.js driver. Prints one line for each step, which `run` compares with the lines of a real server.
'use strict';

const { MongoClient, BSON, Decimal128, Long, ObjectId } = require('mongodb');

const { EJSON } = BSON;


const show = (step, value) => console.log(step, EJSON.stringify(value));

async function error(step, call) {
  try {
    show(step, await call());
  } catch (failure) {
    const { code, codeName, keyPattern, keyValue } = failure;
    show(step, { name: failure.name, code, codeName, keyPattern, keyValue, labels: failure.errorLabels });
  }
}

async function main() {
  const client = await new MongoClient(process.argv[2], { serverSelectionTimeoutMS: 10000 }).connect();
  const db = client.db('odm_clients_node');
  await db.dropDatabase();
  const people = db.collection('people');
  const many = Array.from({ length: 500 }, (_, n) => ({ _id: n, n: n % 7, name: `name ${n}` }));
  show('insert', (await people.insertMany(many)).insertedCount);
  await people.insertOne({
    _id: 'types', decimal: Decimal128.fromString('1.50'), long: Long.fromNumber(7), id: new ObjectId('0'.repeat(24)),
    date: new Date(0), pattern: /^a/i, nested: { a: [1, { b: null }] }, float: 1.5
  });
  show('types', await people.findOne({ _id: 'types' }));
  show('find', await people.find({ n: 3 }).project({ name: 1 }).sort({ _id: -1 }).skip(2).limit(3).toArray());
  let batches = 0;
  for await (const _ of people.find().batchSize(3)) batches += 1;
  show('batches', batches);
  show('count', await people.countDocuments({ n: { $lt: 3 } }));
  show('estimate', await people.estimatedDocumentCount());
  show('distinct', await people.distinct('n'));
  const updated = await people.updateMany({ n: 3 }, { $set: { x: 1 }, $inc: { n: 10 } });
  show('update', [updated.matchedCount, updated.modifiedCount]);
  show('upsert', (await people.updateOne({ _id: 'new' }, { $push: { tags: 'a' } }, { upsert: true })).upsertedId);
  show('modify', await people.findOneAndUpdate({ _id: 'new' }, { $push: { tags: 'c' } }, { returnDocument: 'after' }));
  show('replace', await people.findOneAndReplace({ _id: 'new' }, { a: 1 }, { includeResultMetadata: true }).then(result => result.value));
  show('remove', await people.findOneAndDelete({ _id: 'new' }));
  const bulk = await people.bulkWrite([
    { insertOne: { document: { _id: 'b1' } } },
    { updateOne: { filter: { _id: 'b2' }, update: { $set: { a: 1 } }, upsert: true } },
    { deleteMany: { filter: { _id: { $in: ['b1', 'b2'] } } } }
  ]);
  show('bulk', [bulk.insertedCount, bulk.upsertedCount, bulk.deletedCount, bulk.upsertedIds]);
  await error('duplicate', () => people.insertOne({ _id: 1 }));
  await error('ordered', () => people.insertMany([{ _id: 'o1' }, { _id: 1 }, { _id: 'o2' }]));
  await error('operator', () => people.find({ a: { $frob: 1 } }).toArray());
  await error('command', () => db.command({ frobnicate: 1 }));
  show('index', await people.createIndex({ n: 1, name: -1 }));
  show('unique', await people.createIndex({ email: 1 }, { unique: true, sparse: true }));
  show('indexes', await people.listIndexes().toArray());
  await people.insertOne({ _id: 'e', email: 'a' });
  await error('unique key', () => people.insertOne({ email: 'a' }));
  await error('create', () => db.createCollection('people'));
  const plan = (await people.find({ n: 4 }).explain('executionStats')).executionStats;
  show('explain', [plan.nReturned, plan.totalDocsExamined, plan.totalKeysExamined]);
  const groups = [{ $group: { _id: '$n', count: { $sum: 1 } } }, { $sort: { _id: 1 } }];
  show('aggregate', await people.aggregate(groups).toArray());
  const facets = { $facet: { low: [{ $match: { n: { $lt: 2 } } }, { $count: 'n' }], all: [{ $count: 'n' }] } };
  show('facet', await people.aggregate([facets]).toArray());
  show('collections', (await db.listCollections({}, { nameOnly: true }).toArray()).map(one => one.name).sort());

  const session = client.startSession();
  const sum = await session.withTransaction(async() => {
    await people.updateOne({ _id: 5 }, { $inc: { n: -1 } }, { session });
    await people.updateOne({ _id: 6 }, { $inc: { n: 1 } }, { session });
    return people.countDocuments({ n: { $gte: 0 } }, { session });
  });
  show('transaction', sum);
  session.startTransaction();
  await people.deleteMany({}, { session });
  show('outside', await people.countDocuments());
  await session.abortTransaction();
  show('aborted', await people.countDocuments());
  session.startTransaction();
  await people.insertOne({ _id: 'later' }, { session });
  const cursor = people.find({}, { session, batchSize: 2 });
  await cursor.next();
  show('cursor', (await cursor.toArray()).length);
  await session.commitTransaction();
  show('committed', await people.findOne({ _id: 'later' }));
  await session.endSession();

  const stream = db.collection('events').watch([], { fullDocument: 'updateLookup' });
  const first = stream.next();
  await new Promise(resolve => setTimeout(resolve, 300));
  await db.collection('events').insertOne({ _id: 1 });
  await db.collection('events').updateOne({ _id: 1 }, { $set: { b: { c: 2 } } });
  await db.collection('events').replaceOne({ _id: 1 }, { d: 1 });
  for (const event of [await first, await stream.next(), await stream.next()]) {
    const { operationType, ns, documentKey, fullDocument, updateDescription } = event;
    show('event', { operationType, ns, documentKey, fullDocument, updateDescription });
  }
  await stream.close();
  await db.dropDatabase();
  await client.close();
}

main().catch(failure => {
  console.error(failure);
  process.exitCode = 1;
});
