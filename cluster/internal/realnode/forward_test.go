package realnode

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
)

// echo answers each line, and says bye at the end of the client's input.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintln(c, lines.Text())
				}
				fmt.Fprintln(c, "bye")
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func TestForward(t *testing.T) {
	f, err := forward(netip.MustParseAddrPort("127.0.0.1:0"), echo(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	dial := func() *net.TCPConn {
		t.Helper()
		c, err := net.Dial("tcp", f.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c.(*net.TCPConn)
	}

	c := dial()
	fmt.Fprintln(c, "hello")
	// One side may end before the other.
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "hello\nbye\n" {
		t.Errorf("got %q, %v", got, err)
	}
	c.Close()

	// Closing the forwarder closes a connection in use, and waits.
	c = dial()
	defer c.Close()
	fmt.Fprintln(c, "hello")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	f.close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived the forwarder")
	}
	if _, err := net.Dial("tcp", f.listener.Addr().String()); err == nil {
		t.Error("a closed forwarder listens")
	}
}

func TestForwardToNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	f, err := forward(netip.MustParseAddrPort("127.0.0.1:0"), to, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	c, err := net.Dial("tcp", f.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes of nobody", n)
	}
}
