// Command csi-proxy runs as the task of a CSI plugin: it listens on CSI_ENDPOINT, starts the real plugin behind it,
// records every call and injects faults by rules. With -fake the plugin is the fake one of this repository.
//
//	csi-proxy -record calls.jsonl -rules rules.txt -- /usr/local/bin/some-csi-plugin --endpoint ${CSI_ENDPOINT}
//	csi-proxy -record calls.jsonl -fake '{"NodeID":"n1","Dir":"/tmp/backend"}'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"berth/internal/conformance/csi/proxy"
	"berth/internal/testkit/fake"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "csi-proxy:", err)
		os.Exit(1)
	}
}

func run() error {
	record := flag.String("record", "", "file that the record of calls is appended to")
	rules := flag.String("rules", "", "file of fault rules, read again whenever it changes")
	plugin := flag.String("plugin", "", "plugin id, for the record")
	name := flag.String("name", "", "name of this proxy in the record (default: made from plugin and endpoint)")
	witness := flag.String("witness", "", "unix socket at which to ask what stands around a call")
	restart := flag.Bool("restart", false, "start the plugin again when it ends, instead of ending too")
	grace := flag.Duration("grace", 5*time.Second, "how long the plugin may take to end")
	fakeJSON := flag.String("fake", "", "run the fake plugin with this configuration (JSON) behind the proxy")
	serve := flag.String("serve-fake", "", "internal: be the fake plugin behind a proxy")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	endpoint := os.Getenv("CSI_ENDPOINT")
	if endpoint == "" {
		return errors.New("CSI_ENDPOINT is not set")
	}
	if *serve != "" {
		var cfg fake.Config
		if err := json.Unmarshal([]byte(*serve), &cfg); err != nil {
			return fmt.Errorf("the configuration of the fake plugin: %w", err)
		}
		return fake.Serve(ctx, strings.TrimPrefix(endpoint, "unix://"), cfg)
	}
	args := flag.Args()
	if *fakeJSON != "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		args = []string{self, "-serve-fake", *fakeJSON}
	}
	if len(args) == 0 {
		return errors.New("no plugin is named: give -fake, or the command after --")
	}
	var observe proxy.Witness
	if *witness != "" {
		observe = proxy.AskAt(*witness)
	}
	return proxy.Run(ctx, proxy.Config{
		Witness:  observe,
		Endpoint: endpoint,
		Record:   *record,
		Rules:    *rules,
		Plugin:   *plugin,
		Name:     *name,
		Restart:  *restart,
		Backend:  proxy.Command{Args: args, Endpoint: endpoint, Out: os.Stderr, Grace: *grace},
		Log:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}
