// Package help owns what "berth agent -h" says. Only the agent imports it.
package help

import (
	"flag"
	"fmt"

	"berth/api"
	"berth/internal/base/flaghelp"
)

// Write writes the help with the flags of the set, where the set writes.
func Write(fs *flag.FlagSet) {
	// Nobody can be told that a help cannot be written.
	_, _ = fmt.Fprint(fs.Output(), `Usage: berth agent [flags]

Runs an agent: a server and a node in one process. What flags say comes before what files say. SIGHUP has it read its
configuration anew; SIGTERM ends it, and leaves the tasks running for the next one, but for -dev.

Examples:
  berth agent -dev                                      # to try out: nothing of it is left behind
  berth agent -config /etc/berth.d
  berth agent -config berth.hcl -log-level debug
`,
		flaghelp.Text("What it is, and what it keeps:", fs, nil, "config", "data-dir", "dev", "node", "dc", "region"),
		flaghelp.Text("The port of its API:", fs, nil, "bind", "http-port"),
		flaghelp.Text("Its log:", fs, nil, "log-level", "log-json"),
		fmt.Sprintf(files, api.DefaultSocket))
}

const files = `
A file says where tasks and volumes are kept, which halves run, and what jobs find on the node:

  data_dir = "/var/lib/berth"
  server {
    enabled = true
  }
  client {
    enabled   = true
    local_csi = true                        # the bundled storage plugin
    host_volume "media" {
      path = "/srv/media"
    }
  }
  plugin "raw_exec" {
    config {
      enabled = true
    }
  }

The HTTP API of an agent in service is on the unix socket %s, for root and the agent's user
alone, and commands find it there. Its port, 127.0.0.1:4646, is for requests with a token of the access control lists;
without lists, acl { enabled = false }, there is a port only where the configuration says who may use that:

  api {
    socket        = "%[1]s"
    token_file    = "/etc/berth/token"      # the port, for clients that show this token (BERTH_TOKEN)
    unsafe_open   = false                   # or the port, for every user and task that reaches it
    allowed_hosts = ["nomad.example.com"]   # names of the port beside localhost, as of a proxy
  }

  limits {
    http_max_conns            = 1024        # connections in all (default: by the limit of open files; 0: no bound)
    http_max_conns_per_client = 100         # of a user of the socket or an address of the port (default: half of it)
  }

A -dev agent has an open port on the loopback, and a socket if it is named.
`
