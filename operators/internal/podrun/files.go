package podrun

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// files are those of a pod on this machine.
type files struct {
	address, tmp string
	replace      replacer
	secrets      []secretFiles // those that are mounted as directories
}

// secretFiles are the files of a Secret.
type secretFiles struct{ name, dir string }

// files makes the volumes of a pod, and mounts the files of Secrets one by one where the pod
// does so.
func (r *Runner) files(ctx context.Context, p *corev1.Pod, address, own string) (files, error) {
	f := files{address: address, tmp: filepath.Join(own, "tmp")}
	dirs := map[string]string{} // by volume
	secrets := map[string]*corev1.Secret{}

	if err := r.mkdir(f.tmp); err != nil {
		return f, err
	}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			dirs[v.Name] = filepath.Join(r.options.Dir, "volumes", v.PersistentVolumeClaim.ClaimName)
		case v.EmptyDir != nil:
			dirs[v.Name] = filepath.Join(own, v.Name)
		case v.Secret != nil:
			dirs[v.Name] = filepath.Join(own, v.Name)
			s, err := r.secrets.Get(ctx, v.Secret.SecretName)
			if err != nil {
				return f, fmt.Errorf("mount %s: %w", v.Name, err)
			}
			secrets[v.Name] = s
		default:
			return f, fmt.Errorf("mount %s: only claims, Secrets and empty directories can be", v.Name)
		}
		if err := r.mkdir(dirs[v.Name]); err != nil {
			return f, err
		}
	}
	mounts := p.Spec.Containers[0].VolumeMounts
	paths := map[string]string{}
	for _, m := range mounts {
		if m.MountPath == "/tmp" {
			f.tmp = dirs[m.Name]
		}
		if m.SubPath == "" {
			paths[m.MountPath] = dirs[m.Name]
		}
	}
	texts := map[string]string{}
	if r.options.Replace != nil {
		texts = r.options.Replace(address, f.tmp)
	}
	f.replace = newReplacer(paths, texts)
	for _, m := range mounts {
		s := secrets[m.Name]
		if s == nil {
			continue
		}
		if m.SubPath == "" {
			f.secrets = append(f.secrets, secretFiles{s.Name, dirs[m.Name]})
			if err := r.fill(f, dirs[m.Name], s); err != nil {
				return f, err
			}
		} else if value, ok := s.Data[m.SubPath]; ok {
			if err := r.write(f.replace.Replace(m.MountPath), f.replace.Replace(string(value))); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// fill brings the files in a directory to the state of their Secret.
func (r *Runner) fill(f files, dir string, s *corev1.Secret) error {
	for key, value := range s.Data {
		path, text := filepath.Join(dir, key), f.replace.Replace(string(value))
		if is, err := os.ReadFile(path); err == nil && string(is) == text {
			continue
		}
		if err := r.write(path, text); err != nil {
			return err
		}
	}
	return nil
}

// refillEvery is the time between two looks at the Secrets of a pod. A kubelet takes longer.
const refillEvery = time.Second

// refill brings the files of Secrets that are mounted as directories up to date until ctx ends.
func (r *Runner) refill(ctx context.Context, f files, line func(string)) {
	ticker := time.NewTicker(refillEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, mounted := range f.secrets {
			s, err := r.secrets.Get(ctx, mounted.name)
			if err == nil {
				err = r.fill(f, mounted.dir, s)
			}
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				line("update files: " + err.Error())
			}
		}
	}
}

// mkdir makes a directory of the processes' account, which nobody else can enter.
func (r *Runner) mkdir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the account enters it
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make directory: %w", err)
	}
	return r.own(dir)
}

func (r *Runner) write(path, text string) error {
	// A file that another account owns cannot be written in a directory of its own.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("write file of a pod: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write file of a pod: %w", err)
	}
	return r.own(path)
}

func (r *Runner) own(path string) error {
	if a := r.options.Account; a != nil {
		if err := os.Chown(path, int(a.Uid), int(a.Gid)); err != nil {
			return fmt.Errorf("give %s to the account of the pods: %w", path, err)
		}
	}
	return nil
}
