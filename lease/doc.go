// Package lease elects one of several processes as the one that acts, by a Lease of
// coordination.k8s.io. It does the work of client-go's leaderelection and of
// controller-runtime's LeaderElection option.
//
//	election := lease.Lease{Client: client, Name: "echo-operator"}
//	err := election.Run(ctx, func(ctx context.Context) error {
//		… // this process holds the lease
//	})
//
// [Lease.Run] waits for the lease (candidate.go), holds it (holder.go) for the time that
// term.go measures, and gives it up. record.go builds the records that are written.
// Processes with client-go's leader election can compete for the same Lease, because both
// write the same fields.
//
// A process with [Lease].TakeOver asks the holder to step down: it writes a claim into
// the annotation lease.pintle.dev/claim of the Lease, and renews it. The holder sees the
// claim at its next renewal, stops in order, releases the lease and waits for it again.
// While a process renews its claim, no other candidate takes the lease.
//
// Requests for the lease have connections of their own, because the connection of all
// other requests may hang, or be busy, for longer than the lease lasts.
//
// # Promise
//
// The function that Run calls has a context. No writing request starts with this context,
// or with one derived from it, later than the lease's expiry less the margin. The
// monotonic clock and the wall clock are both asked, and the earlier one decides. Package
// kube asks right before it sends (internal/gate), so this also holds for a process that
// was stopped and continues. Requests in flight and the context itself end at that time
// too.
//
// # Caveats
//
// A lease does not exclude other processes with certainty. A request can be held up
// between the last look at the clocks and its execution: for microseconds in the process,
// and without limit on the network and in the server. The margin is meant for that. A
// write that must not happen twice needs a precondition, such as a resourceVersion. If
// both clocks stop, as in a paused virtual machine whose clock is set later, the process
// does not know that time has passed. Anyone with the right to delete or edit the Lease
// decides which process holds it: a process that starts at that moment may take it before
// the former holder has seen the change. The lease does not stop requests that are made
// with other contexts than the function's, such as context.Background. A process that has
// lost the lease should end.
package lease
