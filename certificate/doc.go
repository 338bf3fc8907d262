// Package certificate gives a server in the cluster its TLS certificate: a webhook, or an
// aggregated API server.
//
// An [Issuer] needs nothing else in the cluster. It makes an authority and a serving
// certificate, keeps them in a Secret, renews them, and tells the API server of the
// authority by the caBundle of its [Target] objects:
//
//	issuer := &certificate.Issuer{
//		Client: client, Namespace: "farm", Service: "farm",
//		Targets: []certificate.Target{certificate.ValidatingWebhooks("farm")},
//	}
//	options := controller.Options{
//		TLS:       &tls.Config{GetCertificate: issuer.GetCertificate},
//		Runnables: []controller.Runnable{{Name: "certificate", Run: issuer.Run, EveryReplica: true}},
//		Checks:    []controller.Check{{Name: "certificate", Ready: issuer.Ready}},
//	}
//
// [Files] serves a certificate that somebody else makes, such as cert-manager, from a
// mounted Secret.
//
// rotation.go has the rules by which one state of the Secret follows another, as a
// function of the state and the time. pem.go reads and writes the Secret, target.go keeps
// the targets right, and issuer.go runs both.
//
// # Guarantees
//
// The Secret changes as a whole, and only if it is as it was read. So one of several
// replicas makes it, no replica undoes a step of another, and a process may end at any
// moment. A certificate is served after it is stored.
//
// A new authority signs nothing until all targets have had it for [Issuer].Propagation
// without a break, as this process has seen by itself. The former authority stays in the
// bundle until it expires. So a client that uses a bundle which the targets had within
// that time trusts the certificate of every replica, also of one that serves the former
// certificate. If somebody deletes the Secret or damages it, a process that knows it
// restores it, and replaces the authority by the same steps.
//
// A bundle that somebody changes comes back within a moment, and within a minute if that
// happens again and again. The field manager of the bundle owns that field alone.
//
// # Assumptions
//
// The clocks of the replicas and of the API server may be off by less than the third of
// each lifetime that is left at a renewal. A clock that is ahead makes no certificate that
// is not valid yet, because certificates are valid since one lifetime before they were
// made.
//
// # Caveats
//
// The Secret has the keys of the authorities too. They give a reader of the Secret nothing
// more than the key of the server does, because only the targets trust the authorities.
// Do not mount the Secret in the program's own pods: they could not start before the
// program has made the Secret.
//
// If nobody who knows the Secret runs when it is deleted, the next process makes an
// authority that no client knows. Calls fail for moments, until the targets have it.
//
// An authority that is about to expire before all targets have its successor signs until
// then. After that the successor signs, known or not.
package certificate
