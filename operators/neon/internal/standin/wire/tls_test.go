package wire

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/trust"
)

// files writes the certificate of a server and its authorities into a directory.
func files(t *testing.T, dir string, a trust.Authorities) {
	t.Helper()
	data, err := trust.Terms{}.Server(a, nil, []string{"server.data.svc"}, time.Now(), true)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range data {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func authority(t *testing.T) trust.Authorities {
	t.Helper()
	a, err := trust.Terms{}.Next(nil, time.Now(), false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAskForTLS connects to a port of PostgreSQL's protocol, with TLS and without.
func TestAskForTLS(t *testing.T) {
	t.Parallel()
	dir, other, a := t.TempDir(), t.TempDir(), authority(t)
	files(t, dir, a)
	files(t, other, authority(t))
	server, err := ServerTLS(filepath.Join(dir, trust.Cert), filepath.Join(dir, trust.Key))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := ListenPostgres(plain, server)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err == nil {
				_, _ = io.WriteString(c, "you said "+line)
			}
			c.Close()
		}
	}()
	defer func() {
		l.Close()
		<-over
	}()
	ask := func(config *tls.Config) (string, string, error) {
		c, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		serial := ""
		if config != nil {
			config.ServerName = "server.data.svc"
			config.VerifyConnection = func(s tls.ConnectionState) error {
				serial = s.PeerCertificates[0].SerialNumber.String()
				return nil
			}
			if c, err = AskTLS(c, config); err != nil {
				return "", "", err
			}
		}
		if _, err := io.WriteString(c, "hello\n"); err != nil {
			return "", "", err
		}
		answer, err := bufio.NewReader(c).ReadString('\n')
		return answer, serial, err
	}
	trusting := func(dir string) *tls.Config {
		config, err := Trusting(filepath.Join(dir, trust.Bundle))
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	if answer, _, err := ask(nil); err != nil || answer != "you said hello\n" {
		t.Errorf("without TLS: %q, %v", answer, err)
	}
	answer, first, err := ask(trusting(dir))
	if err != nil || answer != "you said hello\n" {
		t.Errorf("with TLS: %q, %v", answer, err)
	}
	var wrong *tls.CertificateVerificationError
	if _, _, err := ask(trusting(other)); !errors.As(err, &wrong) {
		t.Errorf("with another authority: %v", err)
	}
	files(t, dir, a)
	if _, second, err := ask(trusting(dir)); err != nil || second == first {
		t.Errorf("the files have changed, and the certificate has not: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, trust.Key), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(trusting(dir)); err != nil {
		t.Errorf("files that do not fit each other: %v", err)
	}
}

// TestNoTLS asks a server for TLS that has none.
func TestNoTLS(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		var request [8]byte
		if _, err := io.ReadFull(server, request[:]); err == nil {
			_, _ = server.Write([]byte("N"))
		}
	}()
	if _, err := AskTLS(client, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "x"}); !errors.Is(err, ErrNoTLS) {
		t.Errorf("the error is %v", err)
	}
	client.Close()
	<-done
}
