package testport_test

import (
	"net"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/internal/testport"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// TestPorts finds that a port is one caller's, before and after a server has used it.
func TestPorts(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]bool{}
	var over sync.WaitGroup
	for range 20 {
		over.Go(func() {
			for range 20 {
				port := testport.Port(t)
				l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if seen[port] {
					t.Errorf("port %d was given twice", port)
				}
				seen[port] = true
				mu.Unlock()
			}
		})
	}
	over.Wait()
}

// TestNoFiles finds that a port needs no file. Everybody can put a link into the temporary
// directory, which leads to a file of the user who opens it.
func TestNoFiles(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	testport.Port(t)
	if files, err := os.ReadDir(temp); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}
