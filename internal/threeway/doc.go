// Package threeway makes a patch from the changes that a function made in a typed copy of an
// object: [Patch] a merge patch, and [JSONPatch] a JSON patch.
//
// The copy may have only a part of the server's object: the Go type may be a view, or
// older than the server. Sending the copy would remove the rest. [Patch] takes the object
// as the server sent it (raw) and the copy as JSON before and after the change. It
// carries the difference over to raw and returns the merge patch (RFC 7386) between raw
// and the outcome. A merge patch replaces whole lists, so the patch holds raw's items
// with the change worked into them. A JSON patch does so if a list has another length.
//
// # Rules
//
//   - Values that are equal before and after stay as they are in raw, to the digit of
//     their numbers.
//   - Objects are changed member by member. An added member is merged with the member in
//     raw, if raw has one (the type left it out as empty).
//   - A member that is gone, or null, after the change is removed. If the member in raw
//     has members that the type does not name, these stay, unless the type would then
//     still see the removed member: a nil pointer or a deleted map entry means the whole
//     member, a zero struct means the fields that it names.
//   - Items of a list are the same item if they have the same name: a member called name,
//     key, type, uid, id, ip, mountPath, devicePath, containerPort or topologyKey that
//     every item has and no two share, before as well as after. Without such a name they
//     are the same item if they are equal. The remaining items between two matched
//     neighbours are changed in place if their number is the same as before and they have
//     no name. New items are sent as they are. Items that are gone are removed with all
//     their members.
//   - It may stay open which old item a new item was, and so which of raw's members
//     belong to it. If there are such members, the answer is [ErrAmbiguous]. If a type
//     names all fields, no change is ambiguous.
//
// Before a patch is returned, it is applied to raw. The outcome, as the type reads it,
// must be the requested one. So a change that a merge patch cannot express, above all a
// null that is to be stored, is [ErrInexpressible]. It never becomes another change.
//
// Sources: https://www.rfc-editor.org/rfc/rfc7386, https://www.rfc-editor.org/rfc/rfc6902.
package threeway
