// Package own decides about the knowledge that a store has besides its watch: the writes of this
// process, and the objects that ended before the watch could show them. It has no I/O, no clock, no
// lock and no goroutine. A store calls it once for each thing that it hears, and obeys the [Verdict].
//
// A server answers a write with the object at its new version. That answer is an event like those
// of the watch, which comes early: the store takes the object at once, and drops the states
// from before that the watch shows. So a read after a write is not older than the write, and nothing has to
// wait. Four things are left to remember, as a [Mark] of a key. They are few, and each ends:
//
//   - a claim: a write whose answer has the identity and the version of the object, and not its
//     content, as that of a status or a scale. A read waits for the watch, and then asks.
//   - a doubt: a write whose answer was lost. Only the server knows the object. A read asks.
//   - a tomb: a state that the store must not go back to. It is of an object that this process has
//     deleted, whose uid never comes back, or of one that has left the store's selection.
//   - the lane's floor: the latest version that is known. A list that is older is not taken.
//
// A lane is one list and watch of a store, of a namespace or of all.
//
// The package makes these promises, and its model test checks them:
//
//  1. A read is not older than the last own answer about the key.
//  2. An object that this process wrote, and that ends, is told: each loop over changes learns of
//     its end, even if the watch never showed it.
//  3. No end is told of an object that exists and that the store's selection has.
//  4. The floor of a lane goes back only if the server's storage was restored.
//  5. When all answers have come, the watch has caught up and ten minutes have passed, nothing is
//     remembered.
//
// Versions are those of the package versions: whole numbers that grow (KEP-5504). For servers with
// other versions, whose order is unknown, an answer is a claim, and only the very version, a list
// that began later, or an answer to a question ends it.
package own
