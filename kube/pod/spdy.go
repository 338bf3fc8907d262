package pod

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// spdyChannels opens the streams of v4.channel.k8s.io, the last protocol that kubelets speak
// in SPDY. All streams end alike, whether the command has ended or the connection.
func spdyChannels(ctx context.Context, at *kube.Location, s Streams) (*channels, error) {
	conn, err := dialSPDY(ctx, at, remotecommand.StreamProtocolV4Name)
	if err != nil {
		return nil, err
	}
	// The server begins when it has all streams.
	open := func(name string, wanted bool) httpstream.Stream {
		if !wanted || err != nil {
			return nil
		}
		headers := http.Header{}
		headers.Set(corev1.StreamType, name)
		var stream httpstream.Stream
		stream, err = conn.CreateStream(headers)
		return stream
	}
	status := open(corev1.StreamTypeError, true)
	stdin := open(corev1.StreamTypeStdin, s.Stdin != nil)
	stdout := open(corev1.StreamTypeStdout, s.Stdout != nil)
	stderr := open(corev1.StreamTypeStderr, s.stderr() != nil)
	resize := open(corev1.StreamTypeResize, s.TTY)
	if err != nil {
		_ = conn.Close() // err says why
		return nil, err
	}
	c := &channels{status: status, close: sync.OnceFunc(func() { _ = conn.Close() })} // all was read
	if stdin != nil {
		c.stdin = stdin
		go func() { // The end of the command ends its input; some runtimes wait until it has ended here too.
			_, _ = io.Copy(io.Discard, stdin)
			_ = stdin.Close()
		}()
	}
	if stdout != nil {
		c.stdout = stdout
	}
	if stderr != nil {
		c.stderr = stderr
	}
	if resize != nil {
		c.resize = resize
	}
	return c, nil
}
