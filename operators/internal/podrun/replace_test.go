package podrun

import "testing"

func TestReplace(t *testing.T) {
	t.Parallel()
	r := newReplacer(map[string]string{"/config": "/tmp/a/config", "/data": "/tmp/data", "/data/.neon": "/tmp/neon", "/tmp": "/tmp/b"},
		map[string]string{"/usr/local/": "/opt/", "/usr/local/bin/": "/bin/", "0.0.0.0": "127.1.2.3"})
	for text, want := range map[string]string{
		"/config/config.json":           "/tmp/a/config/config.json",
		"/data":                         "/tmp/data",
		"key='/data/.neon/public.pem'":  "key='/tmp/neon/public.pem'",
		"-D /data/.neon -k /tmp":        "-D /tmp/neon -k /tmp/b",
		"/database":                     "/database",
		"/usr/local/bin/x /usr/local/y": "/bin/x /opt/y",
		"--listen=0.0.0.0:1":            "--listen=127.1.2.3:1",
		"":                              "",
	} {
		if got := r.Replace(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
