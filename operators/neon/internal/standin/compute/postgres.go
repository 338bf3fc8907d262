package compute

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// postgres is the running PostgreSQL.
type postgres struct {
	cmd  *exec.Cmd
	done chan struct{}
	code int // valid after done
}

// startPostgres starts PostgreSQL. It outlives this process unless somebody ends it, as that
// of upstream does.
func startPostgres(bin, data string, output io.Writer) (*postgres, error) {
	cmd := exec.Command(bin, "-D", data)
	cmd.Dir = data
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getenv(addressVariable) != "" {
		dieWithParent(cmd.SysProcAttr) // as in a pod, whose processes all end with the first
	}
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	p := &postgres{cmd: cmd, done: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer read.Close()
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			fmt.Fprintf(output, "PG:%s\n", lines.Bytes())
		}
		_, _ = io.Copy(io.Discard, read) // a line was too long
	})
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the state tells how it ended
		reading.Wait()
		p.code = cmd.ProcessState.ExitCode()
		if p.code < 0 {
			p.code = 1 // a signal
		}
	}()
	return p, nil
}

func (p *postgres) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// settingsFile is written at the start and at each configuration.
const settingsFile = "postgresql.conf"

// writeSettings writes the settings of a configuration, without those that only Neon's
// PostgreSQL has.
func writeSettings(data string, c spec.Config) error {
	var text strings.Builder
	fmt.Fprintln(&text, "unix_socket_directories = '/tmp'") // Debian has another default
	for _, option := range c.Spec.Cluster.Settings {
		value := option.Value
		switch option.Name {
		case "max_replication_write_lag", "max_replication_flush_lag":
			continue
		case "shared_preload_libraries":
			libraries := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
			libraries = slices.DeleteFunc(libraries, func(name string) bool { return name == "neon" })
			value = strings.Join(libraries, ",")
		}
		if option.Type == "string" {
			value = "'" + strings.ReplaceAll(strings.ReplaceAll(value, `\`, `\\`), "'", "''") + "'"
		}
		fmt.Fprintf(&text, "%s = %s\n", option.Name, value)
	}
	if address := os.Getenv(addressVariable); address != "" {
		fmt.Fprintf(&text, "listen_addresses = '%s'\nunix_socket_directories = '%s'\n", address, os.Getenv(socketsVariable))
	}
	// All WAL stays on the disk for safekeepers that come back, and all of it can be replayed.
	text.WriteString("wal_keep_size = 1000000\nfull_page_writes = on\nwal_recycle = off\nwal_init_zero = off\n" +
		"log_min_messages = warning\nlogging_collector = off\nrestore_command = ''\n")
	if serves(c) != nil {
		fmt.Fprintf(&text, "ssl = on\nssl_cert_file = '%s'\nssl_key_file = '%s'\n", serverCert, serverKey)
	}
	if c.Spec.Mode != spec.Primary() {
		text.WriteString("hot_standby = on\nwal_retrieve_retry_interval = 200ms\n")
	}
	path := filepath.Join(data, settingsFile)
	if err := errors.Join(os.WriteFile(path+".tmp", []byte(text.String()), 0o600), os.Rename(path+".tmp", path)); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}
