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

// mode returns the mode of a program.
func (l *Lab) mode(t testing.TB, program string) Mode {
	t.Helper()
	switch {
	case l.TLS == nil:
		return Mode{Plain: true, Controller: l.URL(t, "controller")}
	case l.TLS.Mode != nil:
		return l.TLS.Mode(program)
	}
	_, http, _ := l.TLS.Host(program)
	return Mode{Secure: true, ByTLS: true, HTTPS: http, Controller: l.known("controller")}
}

// known returns the URL by which others know a program that serves TLS only.
func (l *Lab) known(program string) string {
	host, port, _ := l.TLS.Host(program)
	return fmt.Sprintf("https://%s:%d", host, port)
}

// authorities returns the file with those that a program trusts.
func (l *Lab) authorities(program string) string {
	return filepath.Join(l.TLS.Dir(program), "ca.crt")
}

// client returns the client of a program. It trusts the file of authorities of one that has a certificate.
func (l *Lab) client(t testing.TB, program string) *http.Client {
	t.Helper()
	if !l.mode(t, program).Secure {
		return l.HTTP
	}
	config, err := wire.Trusting(l.authorities(program))
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

// listeners returns those of a program's HTTP service, without TLS and with it.
func (l *Lab) listeners(t testing.TB, program string) (plain, secure []net.Listener) {
	t.Helper()
	mode := l.mode(t, program)
	name := program
	if mode.Plain {
		plain = []net.Listener{l.listen(t, program)}
		name += "-tls"
	}
	if mode.Secure {
		secure = []net.Listener{tls.NewListener(l.listen(t, name), l.config(t, program))}
	}
	return plain, secure
}
