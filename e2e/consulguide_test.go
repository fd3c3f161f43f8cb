package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"berth/internal/testkit/consulagent"
)

// speaksToConsul is so once the servers have heard of the machine's node since it was configured: until then they know
// it as it was.
func (m *machine) speaksToConsul() bool {
	m.t.Helper()
	all, _, err := m.api.Nodes().List(m.t.Context(), nil)
	must(m.t, err)
	n, _, err := m.api.Nodes().Get(m.t.Context(), all[0].ID, nil)
	must(m.t, err)
	return n.Attributes["consul.version"] != ""
}

// TestTheGuideOfConsulBeginsFromNothing: given a Consul that denies everything and has no token yet, when the commands
// of the guide are typed in turn, then the agent registers a service by that service's own token, its task asks Consul
// by one of its own, and both are gone with the job.
func TestTheGuideOfConsulBeginsFromNothing(t *testing.T) {
	c := consulagent.StartDenying(t)
	page, err := os.ReadFile("../docs/guides/consul.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "## With access lists, from nothing")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("the guide says nothing of access lists")
	}
	m := newMachine(t, false)
	dir := filepath.Join(m.root, "typed")
	must(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(consulagent.Program(t), filepath.Join(dir, "bin", "consul")))
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("CONSUL_HTTP_ADDR", c.URL())
	here := strings.NewReplacer("/etc/berth/", dir+"/", "127.0.0.1:8500", strings.TrimPrefix(c.URL(), "http://"),
		"https://berth.example:4646", fmt.Sprintf("http://127.0.0.1:%d", m.port), "vm1:dc1", consulagent.Node+":dc1")
	for _, f := range pageFile.FindAllStringSubmatch(section, -1) {
		must(t, os.WriteFile(filepath.Join(dir, f[1]), []byte(here.Replace(f[2])), 0o600))
	}
	said, exports := map[string]string{}, ""
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for _, line := range strings.Split(strings.ReplaceAll(block[1], "|\n", "| "), "\n") {
			switch {
			case strings.HasPrefix(line, "umask"), strings.HasPrefix(line, "export"):
				exports += line + "\n"
			case strings.HasPrefix(line, "systemctl restart"):
				config, err := os.ReadFile(filepath.Join(dir, "consul.hcl"))
				must(t, err)
				m.append(strings.Replace(string(config), "{", fmt.Sprintf("{\n  address = %q", c.URL()), 1))
				m.kill()
				m.start()
				m.eventually("the node to be registered with its Consul", m.speaksToConsul)
			case strings.HasPrefix(line, "consul catalog"):
				m.eventually("the service in Consul", func() bool {
					said[line] = m.shell("cd " + dir + "\n" + exports + line)
					return strings.Contains(said[line], "shop")
				})
			case line != "":
				said[line] = m.shell("cd " + dir + "\nset -e\n" + exports + here.Replace(line))
			}
		}
	}
	all := func(begins string) (out string) {
		for line, text := range said {
			if strings.HasPrefix(line, begins) {
				out += text
			}
		}
		return out
	}
	mustSay(t, "what would be written, and was", all("berth setup consul"), "Nothing was written", "7 of 7 written")
	mustSay(t, "the task by its own token", all("berth alloc exec"), `"ServiceName":"shop"`)
	mustSay(t, "Consul", all("consul acl token list"), `"service":"shop"`, `"task":"server"`, "berth-tasks-default")
	secret, err := os.ReadFile(filepath.Join(dir, "bootstrap.token"))
	must(t, err)
	t.Setenv("CONSUL_HTTP_TOKEN", strings.TrimSpace(string(secret)))
	m.eventually("the tokens are gone with the job", func() bool {
		text := m.shell("consul acl token list")
		return !strings.Contains(text, `"service":"shop"`) && !strings.Contains(text, `"task":"server"`)
	})
	mustSay(t, "the same again", m.shell(here.Replace("berth setup consul -jwks-url "+
		"https://berth.example:4646/.well-known/jwks.json")), "Consul has all that it needs")
	gateway := regexp.MustCompile("(?m)^berth setup consul .*-terminating-gateway .*$").FindString(string(page))
	mustSay(t, "the rights of a terminating gateway", m.shell(here.Replace(gateway)), "berth-gateway-default-exit",
		"3 of 10 written")
	mustSay(t, "its policy", m.shell("consul acl policy read -name berth-gateway-default-exit"), `service "ext"`,
		`service "legacy"`)
}

// TestTheGuideOfConsulHasATemplateFollow: given an agent of Consul beside ours, when the commands of the guide about
// templates are typed in turn, then the task waits for a key, starts when it is there, and again when another is.
func TestTheGuideOfConsulHasATemplateFollow(t *testing.T) {
	c := consulagent.Start(t)
	page, err := os.ReadFile("../docs/guides/consul.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "## Templates")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("the guide says nothing of templates")
	}
	m := prepare(t, false)
	m.append(fmt.Sprintf("consul {\n  address = %q\n}\n", c.URL()))
	m.start()
	dir := filepath.Join(m.root, "typed")
	must(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(consulagent.Program(t), filepath.Join(dir, "bin", "consul")))
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("CONSUL_HTTP_ADDR", c.URL())
	for _, f := range pageFile.FindAllStringSubmatch(section, -1) {
		must(t, os.WriteFile(filepath.Join(dir, f[1]), []byte(f[2]), 0o600))
	}
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(section)
	if commands == nil {
		t.Fatal("the guide has no commands about templates")
	}
	wants := map[string]string{
		"berth job status": `key "shop/greeting"`,
		"berth alloc logs": "greeting = hello",
	}
	typed := func(line string) string { return m.shell("cd " + dir + "\n" + line) }
	logs := ""
	for _, line := range strings.Split(strings.TrimSpace(commands[1]), "\n") {
		said := typed(line)
		for begins, want := range wants {
			if !strings.HasPrefix(line, begins) {
				continue
			}
			delete(wants, begins)
			m.eventually(line+" to say "+want, func() bool {
				said = typed(line + " 2>&1 || true")
				return strings.Contains(said, want)
			})
		}
		if strings.HasPrefix(line, "berth alloc logs") {
			logs = line
			mustSay(t, "the task", said, "color = blue")
		}
	}
	if len(wants) > 0 {
		t.Fatalf("the guide has no command for %v", wants)
	}
	m.eventually("the task to start with the other color", func() bool {
		return strings.Contains(typed(logs), "color = green")
	})
}
