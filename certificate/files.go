package certificate

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// filesAge is how long a certificate is served after it was read before its files are
// read again.
const filesAge = 10 * time.Second

// Files is the serving certificate in the files tls.crt and tls.key of a directory, as a
// Secret of type kubernetes.io/tls is mounted. The files are read again when they change.
// Their content is compared, because the kubelet changes the link that leads to them. It
// is like controller-runtime's certwatcher.
type Files struct {
	// Dir is the directory.
	Dir string
	// Logger gets the changes of the certificate, and failures. Default: slog.Default(). Its
	// counterpart is Logger of controller-runtime's manager.Options.
	Logger *slog.Logger

	mu       sync.Mutex
	current  *tls.Certificate
	crt, key []byte
	looked   time.Time
	failing  bool
}

// Load reads the files. A program calls it before it serves, to fail early. GetCertificate
// reads the files by itself too. Its counterpart is ReadCertificate of controller-runtime's
// certwatcher.
func (f *Files) Load() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load()
}

func (f *Files) load() error {
	f.looked = time.Now()
	if err := f.read(); err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	return nil
}

// GetCertificate is for [tls.Config]. If the files cannot be read or do not fit together,
// as between two writes, it returns the certificate that was read before. The log says
// so. Any goroutine may call it.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		err := f.load()
		return f.current, err
	}
	if time.Since(f.looked) < filesAge {
		return f.current, nil
	}
	f.looked = time.Now()
	was, log := f.current, cmp.Or(f.Logger, slog.Default())
	err := f.read()
	switch {
	case err != nil && !f.failing:
		log.Error("cannot read the renewed certificate: the old certificate is still used", "directory", f.Dir, "error", err)
	case err == nil && (f.failing || was != f.current):
		log.Info("the certificate was reloaded", "directory", f.Dir)
	}
	f.failing = err != nil
	return f.current, nil
}

// read reads the files, and uses their content if it is new.
func (f *Files) read() error {
	crt, cerr := os.ReadFile(filepath.Join(f.Dir, servingCert))
	key, kerr := os.ReadFile(filepath.Join(f.Dir, servingKey))
	if err := errors.Join(cerr, kerr); err != nil {
		return err
	}
	if bytes.Equal(crt, f.crt) && bytes.Equal(key, f.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		return err
	}
	f.current, f.crt, f.key = &pair, crt, key
	return nil
}
