package controller

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// certificateAge is how long a certificate is served after it was read before its files
// are read again.
const certificateAge = 10 * time.Second

// certificate is the certificate in the files tls.crt and tls.key of a directory, as a
// Secret of type kubernetes.io/tls is mounted. The files are read again when they change,
// as controller-runtime's certwatcher does. Their content is compared, because the
// kubelet changes the link that leads to them.
type certificate struct {
	dir string
	log *slog.Logger

	mu       sync.Mutex
	current  *tls.Certificate
	crt, key []byte
	looked   time.Time
	failing  bool
}

// newCertificate reads a certificate.
func newCertificate(dir string, log *slog.Logger) (*certificate, error) {
	c := &certificate{dir: dir, log: log}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	c.looked = time.Now()
	return c, nil
}

// get implements tls.Config.GetCertificate. If the files cannot be read or do not fit
// together, as between two writes, get returns the certificate that it has.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificateAge {
		return c.current, nil
	}
	c.looked = time.Now()
	was := c.current
	err := c.read()
	switch {
	case err != nil && !c.failing:
		c.log.Error("cannot read the renewed certificate: the old certificate is still used", "directory", c.dir, "error",
			err)
	case err == nil && (c.failing || was != c.current):
		c.log.Info("the certificate was reloaded", "directory", c.dir)
	}
	c.failing = err != nil
	return c.current, nil
}

// read reads the files, and uses their content if it is new.
func (c *certificate) read() error {
	crt, err := os.ReadFile(filepath.Join(c.dir, "tls.crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(c.dir, "tls.key"))
	if err != nil {
		return err
	}
	if bytes.Equal(crt, c.crt) && bytes.Equal(key, c.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		return err
	}
	c.current, c.crt, c.key = &pair, crt, key
	return nil
}
