// Package lease elects the one of several processes that acts, by a Lease of
// coordination.k8s.io.
//
//	election := lease.Lease{Client: client, Name: "echo-operator"}
//	err := election.Run(ctx, func(ctx context.Context) error {
//		… // this process holds the lease
//	})
//
// [Lease.Run] waits for the lease in candidate.go, holds it in holder.go for the
// time that term.go measures, and gives it up. record.go says what is written.
// Leases are shared with client-go's leader election, which writes the same.
//
// A process with [Lease].TakeOver asks the holder to step down: it writes a claim
// into the annotation lease.pintle.dev/claim of the Lease, and renews it. The holder
// sees the claim at its next renewal, stops in order, releases the lease and waits for
// it again. No candidate takes the lease while another's claim is renewed.
//
// Requests for the lease have connections of their own, because the connection of all else may hang, or be busy,
// for longer than the lease lasts.
//
// # Promise
//
// The function that Run calls has a context. No request that writes is started
// with it, or with one derived from it, after the lease's expiry less a margin,
// by the monotonic or by the wall clock, whichever says so first: package kube
// asks right before it sends (internal/gate), also in a process that was
// stopped and goes on. Requests in flight and the context itself end then too.
//
// # Caveats
//
// A lease does not exclude others with certainty. A request can be held up
// between the last look at the clocks and its execution: for microseconds in the
// process, for as long as it likes on the network and in the server. The margin is
// meant for that; writes that must not be made twice need preconditions, such as
// a resourceVersion. If both clocks stop, as in a virtual machine that is paused
// until something sets its clock, the process does not know that time has passed.
// Whoever deletes the Lease, or edits it, decides who holds it: a process that
// starts just then may take it while the one that held it has not yet seen that.
// Requests that are made with other contexts than the function's, such as
// context.Background, are not stopped: a process that has lost the lease should end.
package lease
