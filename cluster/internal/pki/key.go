package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A KeyPair names the files of a private key and its public half.
type KeyPair struct {
	PrivateFile string
	PublicFile  string
}

// OpenKeyPair reads the key in dir/name.key, or makes it, and writes its public half to
// dir/name.pub. Service account tokens are signed with such a pair: earlier tokens stay
// valid for as long as it is kept.
func OpenKeyPair(dir, name string) (KeyPair, error) {
	files := KeyPair{PrivateFile: filepath.Join(dir, name+".key"), PublicFile: filepath.Join(dir, name+".pub")}
	key, err := readKey(files.PrivateFile)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = newKey(files.PrivateFile)
	}
	if err != nil {
		return KeyPair{}, fmt.Errorf("open key %s: %w", name, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return KeyPair{}, fmt.Errorf("encode public key %s: %w", name, err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := WriteFile(files.PublicFile, public, 0o644); err != nil {
		return KeyPair{}, err
	}
	return files, nil
}

// WriteFile writes data to a file so that readers see either the old or the new content,
// never a part. Missing directories are made with mode 0700.
func WriteFile(file string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of %s: %w", file, err)
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}

func newKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, writeKey(file, key)
}

func writeKey(file string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	return WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func readKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no private key", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, which cannot sign", file, key)
	}
	return signer, nil
}
