package lab

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// known returns the URL by which others know a program.
func (l *Lab) known(t testing.TB, program string) string {
	t.Helper()
	if l.TLS == nil {
		return l.URL(t, program)
	}
	host, port, _ := l.TLS.Host(program)
	return fmt.Sprintf("https://%s:%d", host, port)
}

// client returns the client of a program, which trusts its file of authorities.
func (l *Lab) client(t testing.TB, program string) *http.Client {
	t.Helper()
	config, err := wire.Trusting(filepath.Join(l.TLS.Dir(program), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	transport := l.HTTP.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// config returns the certificate of a program.
func (l *Lab) config(t testing.TB, program string) *tls.Config {
	t.Helper()
	dir := l.TLS.Dir(program)
	config, err := wire.ServerTLS(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// secure makes a listener one with TLS, if the lab has it.
func (l *Lab) secure(t testing.TB, program string, on net.Listener) net.Listener {
	t.Helper()
	if l.TLS == nil {
		return on
	}
	return tls.NewListener(on, l.config(t, program))
}
