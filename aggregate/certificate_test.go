package aggregate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

// TestNoCertificate asks a function that has no certificate at first, and says so by nil, as tls.Config
// allows. The server waits for it.
func TestNoCertificate(t *testing.T) {
	crt, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	answers := []*tls.Certificate{nil, {}, &pair}
	s := Server{Logger: slog.New(slog.DiscardHandler), GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		asked++
		return answers[min(asked, len(answers))-1], nil
	}}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	is, _, err := s.identity(ctx, Registration{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := is.CurrentCertKeyContent(); string(got) != string(crt) || asked < 3 {
		t.Errorf("after %d calls the certificate is %s, want %s", asked, got, crt)
	}
}
