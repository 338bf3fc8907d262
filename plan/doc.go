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
// objects are marked belong in a [Marked] source as well. The nodes are those of [Object],
// [Each] and [Lookup]. Its counterparts are the workflows of Java Operator SDK and the
// graphs of kro.
//
// # From the description to the cluster
//
// describe.go has the words of a description. graph.go orders the nodes, and walks over
// them in both directions. run.go visits the nodes, and crew.go sends their requests side
// by side. object.go makes an object the owner's, and applies it. inventory.go knows all
// objects that were ever made, and leave.go deletes those that are no longer wanted.
// status.go keeps all of it in the owner's status. tree.go, graphtext.go and follow.go show
// the status to people.
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
// labels of the child, and at least one.
//
// # Assumptions
//
// One process at a time reconciles an owner, as a lease ensures. Nobody else writes the
// part of the owner's status that the plan keeps. The names of nodes stay the same from
// release to release; a node of another name that wants the same object takes it over.
//
// # Caveats
//
// The functions of nodes run one at a time, on the goroutine of Run. They should be quick
// and must not change the live objects that they get.
//
// If the kind of a recorded object is not served any more in its recorded version, the
// object counts as gone.
//
// If a process ends while its request to create an object is on the way, and the owner is
// deleted before the server has executed that request, an object with an owner reference
// is left to the garbage collector, and a marked object stays.
//
// A change that the server refuses as immutable is an error of the node. It is for the
// program to delete the object or to leave it.
package plan
