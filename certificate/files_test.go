package certificate

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// mount is a directory as the kubelet mounts a Secret: its files are links through
// ..data, and ..data is changed in one step.
type mount struct {
	*testing.T
	dir string
}

func newMount(t *testing.T) mount {
	m := mount{t, t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key"} {
		m.check(os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
	}
	return m
}

func (m mount) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// swap replaces the files.
func (m mount) swap(version string, crt, key []byte) {
	m.Helper()
	dir := filepath.Join(m.dir, ".."+version)
	m.check(errors.Join(
		os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), crt, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
		os.Symlink(filepath.Base(dir), filepath.Join(m.dir, "..data_tmp")),
		os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")),
	))
}

// pair returns the files of a certificate.
func pair(t *testing.T) (crt, key []byte) {
	t.Helper()
	s := first(t)
	data, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	return data[servingCert], data[servingKey]
}

// A renewed certificate is served within moments. A certificate that cannot be read
// leaves the old one in place, and is reported once.
func TestFilesAreReadAgain(t *testing.T) {
	m := newMount(t)
	synctest.Test(t, func(t *testing.T) {
		crt1, key1 := pair(t)
		crt2, key2 := pair(t)
		var log bytes.Buffer
		f := &Files{Dir: m.dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if c, err := f.GetCertificate(nil); c != nil || err == nil {
			t.Errorf("without files: %v, %v", c, err)
		}
		m.swap("first", crt1, key1)
		serves := func(want []byte) {
			t.Helper()
			time.Sleep(filesAge)
			got, err := f.GetCertificate(nil)
			if err != nil || !bytes.Equal(state{authorities: []authority{{Cert: got.Leaf}}}.bundle(), want) {
				t.Errorf("another certificate, %v", err)
			}
		}
		serves(crt1)
		m.swap("second", crt2, key2)
		serves(crt2)
		m.swap("mixed", crt1, key2)
		serves(crt2)
		serves(crt2)
		if n := strings.Count(log.String(), "cannot read the renewed certificate"); n != 1 {
			t.Errorf("that it cannot be read was said %d times:\n%s", n, &log)
		}
		m.swap("third", crt1, key1)
		serves(crt1)
	})
}
