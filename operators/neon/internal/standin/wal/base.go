package wal

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Superuser is the role to which all belongs in a base.
const Superuser = "cloud_admin"

// hba lets everybody in from inside, as Neon's computes do, and asks others for a password.
const hba = `local all all trust
host all all 127.0.0.1/32 trust
host all all ::1/128 trust
host replication all 127.0.0.1/32 trust
host all all all md5
`

// NewBase makes the first state of a database with the programs of PostgreSQL in bin: a tar
// of a data directory as after a crash, whose WAL goes on at [Start]. Computes replay the WAL
// from there. As root, account is the one for PostgreSQL's processes, which refuse to be root.
func NewBase(ctx context.Context, bin string, account *syscall.Credential) (_ []byte, failed error) {
	dir, err := os.MkdirTemp("", "base")
	if err != nil {
		return nil, fmt.Errorf("make base: %w", err)
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
	if account != nil {
		if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
			return nil, fmt.Errorf("make base: %w", err)
		}
	}
	data := filepath.Join(dir, "data")
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
		// A server that pg_ctl starts keeps its files open: a pipe would never end.
		out, err := os.CreateTemp(dir, "out")
		if err != nil {
			return err
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			said, _ := os.ReadFile(out.Name())
			return fmt.Errorf("make base: %s: %w\n%s", name, err, said)
		}
		return nil
	}
	options := fmt.Sprintf("-k %s -c listen_addresses= -c wal_level=logical -c fsync=off -c autovacuum=off "+
		"-c max_connections=5 -c max_wal_senders=2", dir) // a replica must not have less
	psql := func(statements ...string) error {
		args := []string{"-X", "-q", "-h", dir, "-U", Superuser, "-d", "postgres", "-v", "ON_ERROR_STOP=1"}
		for _, s := range statements {
			args = append(args, "-c", s)
		}
		return run("psql", args...)
	}
	for _, step := range []func() error{
		func() error {
			return run("initdb", "-D", data, "-U", Superuser, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
		},
		func() error { return os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o600) },
		// The first segment that is written is the last one before Start.
		func() error { return run("pg_resetwal", "-D", data, "-l", (Start - 1).File()) },
		func() error {
			return run("pg_ctl", "-D", data, "-o", options, "-l", filepath.Join(dir, "log"), "-w", "start")
		},
		func() error { return psql("checkpoint", "select pg_switch_wal()") },
		func() error { return run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop") },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := endAtStart(data); err != nil {
		return nil, fmt.Errorf("make base: %w", err)
	}
	return pack(data)
}

// endAtStart checks that the WAL of a data directory ends at Start, and removes files that
// PostgreSQL has made for later.
func endAtStart(data string) error {
	segment, err := os.Open(filepath.Join(data, "pg_wal", (Start - 1).File()))
	if err != nil {
		return err
	}
	defer segment.Close()
	end, err := NewScanner(offset{segment, Start - SegmentSize}, Start-SegmentSize).Last(Start)
	if err != nil {
		return err
	}
	if end != Start {
		return fmt.Errorf("its WAL ends at %s instead of %s", end, Start)
	}
	files, err := filepath.Glob(filepath.Join(data, "pg_wal", "0*"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if filepath.Base(name) != (Start - 1).File() {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack makes the tar. It is not compressed: with the race detector that would take longer than a
// test. Of the WAL it leaves out the zeros at the end of the segment.
func pack(dir string) ([]byte, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "postmaster.pid" || name == "postmaster.opts" {
			return err
		}
		if entry.IsDir() {
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o700, ModTime: time.Unix(0, 0)})
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Base(name) == (Start - 1).File() {
			file = bytes.TrimRight(file, "\x00")
		}
		err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(file)), ModTime: time.Unix(0, 0)})
		if err == nil {
			_, err = archive.Write(file)
		}
		return err
	})
	if err = errors.Join(err, archive.Close()); err != nil {
		return nil, fmt.Errorf("pack base: %w", err)
	}
	return content.Bytes(), nil
}

// Unpack writes a base into a directory, which must not exist.
func Unpack(base io.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("unpack base: %w", err)
	}
	for archive := tar.NewReader(base); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && !filepath.IsLocal(header.Name) {
			err = fmt.Errorf("the name %q leaves the directory", header.Name)
		}
		if err == nil {
			err = unpackFile(archive, header, filepath.Join(dir, header.Name))
		}
		if err != nil {
			return fmt.Errorf("unpack base: %w", err)
		}
	}
}

func unpackFile(archive io.Reader, header *tar.Header, path string) error {
	if header.Typeflag == tar.TypeDir {
		return os.Mkdir(path, 0o700)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, archive)
	if err == nil && filepath.Base(path) == (Start-1).File() {
		err = file.Truncate(SegmentSize)
	}
	return errors.Join(err, file.Close())
}

// Directory is the pg_wal of a data directory. It is a [Source], and WriteAt fills it.
type Directory struct {
	Path string
	// Last is the end of the WAL that was written before PostgreSQL starts.
	Last LSN
}

// System returns PostgreSQL's identifier of the database.
func (d Directory) System() uint64 {
	control, err := os.ReadFile(filepath.Join(filepath.Dir(d.Path), "global", "pg_control"))
	if err != nil || len(control) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(control)
}

// ReadAt reads WAL. The files are those of PostgreSQL.
func (d Directory) ReadAt(p []byte, at int64) (int, error) {
	done := 0
	for done < len(p) {
		lsn := LSN(at) + LSN(done)
		n := min(len(p)-done, int(lsn.Segment()+SegmentSize-lsn))
		file, err := os.Open(filepath.Join(d.Path, lsn.File()))
		if err != nil {
			return done, err
		}
		n, err = file.ReadAt(p[done:done+n], int64(lsn-lsn.Segment()))
		file.Close()
		done += n
		if err != nil && n == 0 {
			return done, err
		}
	}
	return done, nil
}

// WriteAt writes WAL, and zeros after it up to the end of its segment.
func (d Directory) WriteAt(p []byte, at int64) (int, error) {
	done := 0
	for done < len(p) {
		lsn := LSN(at) + LSN(done)
		n := min(len(p)-done, int(lsn.Segment()+SegmentSize-lsn))
		file, err := os.OpenFile(filepath.Join(d.Path, lsn.File()), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return done, err
		}
		_, err = file.WriteAt(p[done:done+n], int64(lsn-lsn.Segment()))
		if err = errors.Join(err, file.Truncate(SegmentSize), file.Close()); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// Cut makes an LSN the end of the WAL: zeros follow it.
func (d Directory) Cut(end LSN) error {
	files, err := filepath.Glob(filepath.Join(d.Path, "0*"))
	if err != nil {
		return fmt.Errorf("cut WAL: %w", err)
	}
	for _, path := range files {
		if strings.Compare(filepath.Base(path), end.File()) > 0 {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("cut WAL: %w", err)
			}
		}
	}
	path := filepath.Join(d.Path, end.File())
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(os.Truncate(path, int64(end-end.Segment())), os.Truncate(path, SegmentSize)); err != nil {
		return fmt.Errorf("cut WAL: %w", err)
	}
	return nil
}
