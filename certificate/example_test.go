package certificate_test

import (
	"crypto/tls"
	"log"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// An operator with webhooks that the API server trusts, without cert-manager.
func ExampleIssuer() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	issuer := &certificate.Issuer{
		Client: client, Namespace: "farm", Service: "farm",
		Targets: []certificate.Target{
			certificate.ValidatingWebhooks("farm"), certificate.Conversion("llamas.farm.example.com"),
		},
	}
	options := controller.Options{
		Address:   ":8443",
		TLS:       &tls.Config{GetCertificate: issuer.GetCertificate, MinVersion: tls.VersionTLS12},
		Runnables: []controller.Runnable{{Name: "certificate", Run: issuer.Run, EveryReplica: true}},
		Checks:    []controller.Check{{Name: "certificate", Ready: issuer.Ready}},
	}
	ctx, stop := controller.Signals()
	defer stop()
	if err := controller.Run(ctx, options /* and the controllers */); err != nil {
		log.Fatal(err)
	}
}
