// Package plan keeps the children of an owner in order. A reconcile describes the
// children as nodes. A node says which nodes it needs, and its function gets their live
// objects:
//
//	p := plan.New(op.shops, shop, &shop.Status.Status)
//	database := plan.Object(p, "database", op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) { … })
//	app := plan.Object(p, "app", op.deployments, func(in plan.Inputs) (*appsv1.Deployment, error) {
//		return deployment(shop, database.From(in).Status.CurrentRevision), nil
//	}).Needs(database)
//	return p.Run(ctx)
//
// The controller's Reconcile calls [Plan.Run], and its Cleanup calls [Plan.Delete]. The
// kinds of the children belong in the controller's Owns: then a change of a child runs
// the plan again, and a plan with nothing to do sends no request. Kinds of which some
// objects are marked belong in a [Marked] source as well.
//
// The operator in the folder operators/shop uses all of it, and its README teaches it.
//
// The nodes are those of [Object], of [Step] for things outside the cluster, of [Each] and
// [EachStep] for collections, and of [Lookup] for objects that are only read. Its
// counterparts are the workflows of Java Operator SDK and the graphs of kro, and for things
// outside the cluster the managed reconciler of crossplane-runtime.
//
// # From the description to the cluster
//
// describe.go has the words of a description. graph.go orders the nodes, and walks over
// them in both directions. run.go runs a plan, walk.go visits its nodes, and crew.go sends
// their requests side by side. scratch.go has memory that runs use again. object.go applies
// an object, and owner.go makes it the owner's. things.go has
// the words for things outside the cluster, step.go creates and changes a thing, target.go
// gives the calls their turns, sight.go remembers a thing until it is due, and keeper.go
// keeps outcomes in Secrets. whose.go says whose a thing is. immutable.go answers refused
// changes, orphan.go looks after pods that a replacement has orphaned, and job.go knows which Jobs have run.
// inventory.go
// knows all objects and things that were ever made, and leave.go deletes those that are no longer
// wanted, in a version that version.go finds; circle.go says which of them stand in the way of others,
// and witness.go sees whether all stay. pause.go is about paused owners. status.go keeps all of it in the owner's
// status, and write.go says when that is written. tree.go, graphtext.go and follow.go show
// the status to people, and monitor.go makes events and metrics. Package
// [github.com/pintle-go/pintle/plan/page] shows plans in a browser.
//
// # Guarantees
//
// A node is built and applied only when all that it needs are ready, in the same run. A
// node that is not ready any more is shown, and the objects that need it are left as they
// are. A failed node blocks only the nodes that need it.
//
// An object is recorded in the owner's status before the request that creates it. So
// whenever the process ends, the next one knows of the object. The objects of nodes that
// left the plan are deleted, each after all that were made with its help. The object of a
// node that has left stays while another node, which was not built yet, may want it.
//
// An object is deleted only if it is in the inventory, and names the owner's uid as its
// controller or in its [Mark]; and only in the state in which that was seen. An object
// that belongs to somebody else is neither applied nor deleted: the error of the node
// wraps [kube.ErrTaken]. An object that belongs to nobody is taken over if it has all
// labels of the child, and at least one. So is an object with the [Mark] of an earlier owner
// of the same kind and name. An object that is being deleted is not taken over.
//
// Before a thing outside the cluster is created, the intent is recorded in the owner's
// status. If the creation is not answered, because the process ended or the connection did,
// one state remains uncertain: the target may have the thing, may never have it, or may have
// it later. Then the thing is observed, and the status says so. It is created again when
// that makes no second one: at once if the Things are Idempotent, else when a call can no
// longer take effect. Until then, a deletion looks for the thing again, and no other owner of
// the process makes one of the name. So nothing is made twice and nothing is lost, if Settle
// holds and the things tell whose they are: see [Things.Adopt].
//
// A settled plan sends no request. It calls a target only when the poll of a thing is due.
//
// The status is written before objects and things are made, and when a node changes its
// state. The message and the uid of a node that has just begun to wait are written within
// five seconds, together with those of others.
//
// # Assumptions
//
// One process at a time reconciles an owner, as a lease ensures. Nobody else writes the
// part of the owner's status that the plan keeps. The names of nodes stay the same from
// release to release; a node of another name that wants the same object takes it over.
//
// The clocks of processes that take turns differ by much less than Settle. The time of a
// creation is that of the clock which began it. A successor whose clock is ahead takes a
// creation too early for one that can no longer take effect; one whose clock is behind waits
// longer.
//
// # Caveats
//
// An object that has a [Mark] is looked at first, and applied a moment later. If somebody
// else makes an object of the name in between, the plan takes it over.
//
// The functions of nodes run one at a time, on the goroutine of Run. They should be quick
// and must not change the live objects that they get. The functions of [Things] are called
// side by side.
//
// A thing has no owner reference: the plan knows by its inventory alone that the thing is
// the owner's. If the owner is recreated from a backup without its status, its things are
// taken for somebody else's, unless Adopt knows better.
//
// The status is applied without a precondition. If a process gives a write up, or loses its
// lease, and the server executes the write after those that follow it, an earlier inventory
// takes the place of a later one. Objects and things that only the later one had are then
// unknown. A node that still wants its object finds it by its owner reference or mark; a
// thing is taken for somebody else's, unless Adopt knows better. The object of a node that
// has left is deleted after its owner if it has an owner reference; a marked object or a
// thing stays.
//
// The Secret of an outcome has a finalizer, which the plan takes away after the thing. If the
// owner's finalizer is taken off by hand, the Secret keeps its own until the next owner of the
// name takes it over, or somebody takes it off.
//
// If the kind of a recorded object is not served any more in any version of its group, the
// object counts as gone.
//
// If a process ends while its request to create an object is on the way, and the owner is
// deleted before the server has executed that request, an object with an owner reference
// is left to the garbage collector, and a marked object stays.
//
// A Job that is complete and gone is not run again. If its ttlSecondsAfterFinished is so short that it is
// gone before the plan sees that it is complete, it is. Nodes that need it get it as it was wanted.
//
// A change that the server refuses as immutable is answered as [Node.OnImmutable] says.
package plan
