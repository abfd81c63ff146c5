package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"go.etcd.io/etcd/server/v3/embed"
)

// What is shipped to run Holdfast with must name settings that are there.

var variableName = regexp.MustCompile(`\b(HOLDFAST|ETCD)_[A-Z0-9_]+\b`)

func TestDeploy_NamesSettingsThatAreThere(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"HOLDFAST_IMAGE": true, "HOLDFAST_PORT_1": true, "HOLDFAST_PORT_2": true, // of docker-compose.yml itself
		"HOLDFAST_ADMIN_PORT_1": true, "HOLDFAST_ADMIN_PORT_2": true,
	}
	for _, of := range settingsOf {
		for _, s := range of {
			known[s.variable()] = true
		}
	}
	for _, name := range etcdFlags(t) {
		known["ETCD_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = true
	}
	seen := 0
	for _, file := range []string{"docker-compose.yml", "deploy/systemd/holdfast.service", "deploy/kubernetes/etcd.yaml", "deploy/kubernetes/holdfast.yaml"} {
		data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variableName.FindAllString(string(data), -1) {
			seen++
			if !known[name] && name != "ETCD_" {
				t.Errorf("%s sets %s, which nobody reads", file, name)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d settings were found", seen)
	}
}

// etcdFlags are those of a plain etcd.
func etcdFlags(t *testing.T) (names []string) {
	t.Helper()
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(flags)
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return append(names, "data-dir")
}

// Every manifest is an object of Kubernetes, and every container of it is locked up.
func TestDeploy_ManifestsAreWhole(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "deploy", "kubernetes")
	var text []byte
	if tool, err := exec.LookPath("kubectl"); err == nil {
		if text, err = exec.Command(tool, "kustomize", folder).Output(); err != nil {
			t.Fatalf("kubectl kustomize: %v", err)
		}
	} else {
		files, _ := filepath.Glob(filepath.Join(folder, "*.yaml")) // the pattern is right
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, "\n---\n"...), data...)
		}
	}
	var kinds []string
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct{ Name string }
			Spec       struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Image           string
							SecurityContext struct {
								ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
							} `yaml:"securityContext"`
							ReadinessProbe, LivenessProbe map[string]any
						}
					}
				}
			}
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.Kind == "" || object.Kind == "Kustomization" {
			continue
		}
		kinds = append(kinds, object.Kind)
		if object.APIVersion == "" || object.Metadata.Name == "" {
			t.Errorf("%+v has no apiVersion or name", object)
		}
		for _, c := range object.Spec.Template.Spec.Containers {
			if !c.SecurityContext.ReadOnlyRootFilesystem || !strings.HasPrefix(c.Image, "holdfast") {
				t.Errorf("%s %s: %+v", object.Kind, object.Metadata.Name, c)
			}
		}
	}
	for _, want := range []string{"StatefulSet", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "Namespace"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("there is no %s among %v", want, kinds)
		}
	}
}

func TestSBOM_OfThisBinary(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := run(t.Context(), []string{"version", "--sbom", self}, nil, strings.NewReader(""), &out, t.Output()); code != exitDone {
		t.Fatalf("exit %d", code)
	}
	for _, want := range []string{`"bomFormat": "CycloneDX"`, `"pkg:golang/go.etcd.io/etcd/server/v3@v3.7`, `"pkg:golang/std@1.`, `"go:h1"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the bill has no %s", want)
		}
	}
	if code := run(t.Context(), []string{"version", "--sbom", "deploy_test.go"}, nil, strings.NewReader(""), &out, t.Output()); code != exitUsage {
		t.Errorf("of no binary: exit %d, want 2", code)
	}
}
