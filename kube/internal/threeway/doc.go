// Package threeway makes a merge patch of what a function changed in a typed
// copy of an object.
//
// The copy names perhaps a part of what the server has: the Go type is a view,
// or older than the server. Sending the copy would remove the rest. [Patch]
// takes the object as the server sent it (raw) and the copy as JSON before and
// after the change, carries the difference over to raw and returns the merge
// patch (RFC 7386) between raw and the outcome. A merge patch replaces lists
// whole, so the patch holds raw's items with the change worked into them.
//
// # Rules
//
//   - What is equal before and after stays as it is in raw, to the digit of
//     its numbers.
//   - Objects are changed member by member. A member that is added is merged
//     into the one raw may have (the type left it out as empty).
//   - A member that is gone, or null, after the change is removed. If raw has
//     members in it that the type does not name, these stay, unless the type
//     would then still see the member: a nil pointer or a deleted map entry
//     means the whole, a zero struct means the fields it names.
//   - Items of a list are the same item if they have the same name: a member
//     called name, key, type, uid, id, ip, mountPath, devicePath,
//     containerPort or topologyKey that every item has and no two share,
//     before as well as after. Without such a name they are the same item if
//     they are equal. What is left between two neighbours that were matched is
//     changed in place if it is as many items as before and there is no name.
//     Items that are new are sent as they are, items that are gone are
//     removed with all that is in them.
//   - If this leaves it open which item another one was, and so which of raw's
//     members belong to it, and there are such members, the answer is
//     [ErrAmbiguous]. Of a type that names all fields no change is ambiguous.
//
// Before a patch is returned it is applied to raw, and the outcome, read by
// the type, must be what was asked for. So a change that a merge patch cannot
// express, above all a null that is to be stored, is [ErrInexpressible], and
// never something else in its place.
//
// Source: https://www.rfc-editor.org/rfc/rfc7386.
package threeway
