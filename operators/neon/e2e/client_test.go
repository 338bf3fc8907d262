package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// address returns the address of the Service that a connection Secret leads to: that of an endpoint,
// or of the operator's proxy. This machine does not know the cluster's names.
func (w *world) address(login *corev1.Secret) string {
	w.Helper()
	labels := strings.Split(string(login.Data["host"]), ".")
	if len(labels) != 3 || labels[2] != "svc" {
		w.Fatalf("the Secret's host is %q", login.Data["host"])
	}
	s, err := kube.For[corev1.Service](w.node.Client).In(labels[1]).Get(w.soon(), labels[0])
	w.ok(err)
	return s.Spec.ClusterIP
}

// psql runs Debian's client with a connection Secret only.
func (w *world) psql(ctx context.Context, login *corev1.Secret, address, sql string) (string, error) {
	get := func(key string) string { return string(login.Data[key]) }
	mode := cmp.Or(get("sslmode"), "prefer")
	cmd := exec.CommandContext(ctx, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, fmt.Sprintf(
		"host=%s hostaddr=%s port=%s user=%s dbname=%s sslmode=%s connect_timeout=60",
		get("host"), address, get("port"), get("username"), get("dbname"), mode)) //nolint:gosec // a test's own Secret
	cmd.Env = append(os.Environ(), "PGPASSWORD="+get("password"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// ask runs a statement at the address of the connection Secret.
func (w *world) ask(login *corev1.Secret, sql string) string {
	w.Helper()
	out, err := w.psql(w.soon(), login, w.address(login), sql)
	w.ok(err)
	return out
}

// writer is a client that writes rows, one after the other, through the proxy, for as long as it
// runs. It connects again when its connection is lost.
type writer struct {
	config *pgx.ConnConfig
	cancel context.CancelFunc
	done   sync.WaitGroup

	first int // its rows come after this number

	mu     sync.Mutex
	next   int
	acked  []int
	last   time.Time // of the last acknowledgement
	longer time.Duration
	err    error // the last one
}

// rows is more than a writer writes.
const rows = 1_000_000

// write starts a writer.
func (w *world) write(login *corev1.Secret) *writer {
	w.Helper()
	get := func(key string) string { return string(login.Data[key]) }
	config, err := pgx.ParseConfig(get("uri"))
	w.ok(err)
	config.Host = w.address(login) // the settings of TLS keep the name
	config.ConnectTimeout = 20 * time.Second
	config.DialFunc = (&net.Dialer{Timeout: 3 * time.Second}).DialContext
	ctx, cancel := context.WithCancel(context.Background())
	first := w.writers * rows
	c := &writer{config: config, cancel: cancel, last: time.Now(), first: first, next: first}
	w.writers++
	c.done.Go(func() { c.run(ctx) })
	w.Cleanup(c.stop)
	return c
}

func (c *writer) stop() {
	c.cancel()
	c.done.Wait()
}

func (c *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.session(ctx); err != nil && ctx.Err() == nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
			time.Sleep(100 * time.Millisecond) // before it connects again
		}
	}
}

// session writes until an error.
func (c *writer) session(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, c.config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the session is over
	}()
	for {
		c.mu.Lock()
		c.next++ // a row whose outcome is unknown is never written again
		n := c.next
		c.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, err := conn.Exec(limited, "insert into written values ($1)", n)
		cancel()
		if err != nil {
			return err
		}
		c.mu.Lock()
		now := time.Now()
		c.longer = max(c.longer, now.Sub(c.last))
		c.acked, c.last = append(c.acked, n), now
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond): // the pace of the rows
		}
	}
}

// goesOn waits until the writer has written a row since now, and returns the longest time between
// two rows since the last call.
func (c *writer) goesOn(w *world) time.Duration {
	w.Helper()
	from := time.Now()
	var longest time.Duration
	w.eventually("the client writes again", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.last.After(from) {
			return fmt.Errorf("its last row was written %s ago: %w", time.Since(c.last), c.err)
		}
		longest, c.longer = c.longer, 0
		return nil
	})
	return longest
}

// check stops the writer and looks for each row that was acknowledged.
func (c *writer) check(w *world, login *corev1.Secret) {
	w.Helper()
	c.stop()
	there := strings.Fields(w.ask(login, fmt.Sprintf("select n from written where n > %d and n <= %d", c.first, c.first+rows)))
	slices.Sort(there)
	lost := 0
	for _, n := range c.acked {
		if _, ok := slices.BinarySearch(there, fmt.Sprint(n)); !ok {
			lost++
		}
	}
	w.Logf("%d rows were acknowledged, of %d that were sent; %d are there", len(c.acked), c.next-c.first, len(there))
	if lost > 0 || len(c.acked) == 0 {
		w.Errorf("%d of %d acknowledged rows are lost", lost, len(c.acked))
	}
}
