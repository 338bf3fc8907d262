package pod_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
)

func ExampleLogs() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client).In("default")
	logs, err := pod.Logs(context.Background(), pods, "web", corev1.PodLogOptions{Follow: true})
	if err != nil {
		log.Fatal(err)
	}
	defer logs.Close()
	if _, err := io.Copy(os.Stdout, logs); err != nil {
		log.Print(err)
	}
}

func ExampleExec() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client).In("default")
	streams := pod.Streams{Stdout: os.Stdout, Stderr: os.Stderr}
	if err := pod.Exec(context.Background(), pods, "web", []string{"ls", "/"}, streams); err != nil {
		log.Print(err) // a *pod.ExitError, if the command has failed
	}
}

func ExamplePortForward() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client).In("default")
	err = pod.PortForward(context.Background(), pods, "web", 8080, pod.PortForwardOptions{
		Ready: func(local int) { fmt.Printf("http://127.0.0.1:%d\n", local) },
	})
	if err != nil {
		log.Print(err)
	}
}
