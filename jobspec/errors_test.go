package jobspec_test

import (
	"strings"
	"testing"

	"berth/jobspec"
	"berth/jobspec/hclfile"
)

// wrong is a document and the first line of the refusal that it must get.
type wrong struct{ name, src, want string }

// job puts lines into a task of a job whose first inner line is line 4.
func inTask(lines string) string {
	return "job \"j\" {\n group \"g\" {\n  task \"t\" {\n" + lines + "\n  }\n }\n}\n"
}

// inGroup puts lines into a group; its first inner line is line 3.
func inGroup(lines string) string {
	return "job \"j\" {\n group \"g\" {\n" + lines + "\n }\n}\n"
}

// Given documents with one mistake each, when they are parsed, then the error begins with file, line and column and
// names the mistake and the way out.
func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	cases := []wrong{
		{"syntax", "job \"j\" {\n  group \"g\" {\n", "f.hcl:2:13: this block is not closed; write } where it ends"},
		{"a brace too many", inGroup("  }"), "f.hcl:5:1: there is nothing open that this } could close; take it out"},
		{"a colon", "job \"j\" {\n  type: \"service\"\n}",
			"f.hcl:2:3: an argument is set with an equals sign; write type = …"},
		{"two on a line", inGroup("  task \"t\" { driver = \"exec\" user = \"x\" }"),
			"f.hcl:3:30: a block on one line has one argument and its }; put each on a line of its own"},
		{"a block in a line", inGroup("  task \"t\" { config { command = \"x\" } }"),
			"f.hcl:3:14: a block on one line has one argument and no other block; put each on a line of its own"},
		{"a comma", "job \"j\" {\n  datacenters = [\"a\" \"b\"]\n}",
			"f.hcl:2:22: a comma is missing before this, or the bracket that ends the list"},
		{"a text of lines left open", inTask("    template {\n      data = <<EOF\nhello\n    }"),
			"f.hcl:5:14: the text of several lines that begins here is not closed; write EOF alone on a line"},
		{"the second text left open",
			inTask("    template {\n      data = <<EOF\nEOF\n      destination = <<-X\n    }"),
			"f.hcl:7:21: the text of several lines that begins here is not closed; write X alone on a line"},
		{"a reference left open", inTask("    env { A = \"${var.x\" }"),
			"f.hcl:4:16: a ${ is not closed on this line; write ${ … }, or $${ for the text itself"},
		{"a reference left open at its end", inTask("    user = \"${attr.x\""), "f.hcl:4:13: a ${ is not closed"},
		{"an unknown type", "variable \"n\" {\n  type = integer\n}\njob \"j\" {\n}",
			`f.hcl:2:10: invalid type specification: The keyword "integer" is not a valid type specification; there are ` +
				"string, number, bool"},
		{"no text", "\x7fELF\x00", "f.hcl: the document is no text: byte 5 of it is 0"},
		{"a number with a unit", inTask("    resources {\n      memory = \"512MB\"\n    }"),
			`f.hcl:5:16: memory must be a whole number, not the text "512MB"; write the number alone, without a unit`},
		{"a place too high", inTask("    memory = 512"),
			`f.hcl:4:5: task "t" has no attribute "memory"; it belongs into resources { … }`},

		{"quote left open", inTask("    driver = \"exec\n    config {\n      command = \"/bin/sleep\"\n    }"),
			`f.hcl:4:19: a quote on this line is not closed; close it before the line ends, or write a text of several ` +
				`lines as <<EOF … EOF`},
		{"quote left open in a list", inTask("    config {\n      args = [\"a, \"b\"]\n    }"),
			`f.hcl:5:23: a quote on this line is not closed`},
		{"path without quotes", inTask("    config {\n      command = /bin/sleep\n    }"),
			`f.hcl:5:17: /bin/sleep is not a value; put it in quotes if it is a text: "/bin/sleep"`},
		{"path of here without quotes", inTask("    config {\n      args = [./run, 1]\n    }"),
			`f.hcl:5:15: ./run is not a value; put it in quotes if it is a text: "./run"`},
		{"typing mistake", inTask("    drivr = \"exec\""),
			`f.hcl:4:5: task "t" has no attribute "drivr"; did you mean "driver"?`},
		{"unknown block", inTask("    volume_mounts {\n    }"),
			`f.hcl:4:5: task "t" has no block "volume_mounts"; did you mean "volume_mount"?`},
		{"no quotes", inTask("    driver = exec"),
			`f.hcl:4:14: exec is not a value; put it in quotes if it is a text: "exec"`},
		{"block as attribute", inTask("    resources = { cpu = 1 }"),
			`f.hcl:4:5: resources is a block; write resources { … } without the equals sign`},
		{"attribute as block", inTask("    driver {\n    }"),
			`f.hcl:4:5: driver is an attribute; write driver = … instead of a block`},
		{"text for number", inTask("    resources {\n      cpu = \"fast\"\n    }"),
			`f.hcl:5:13: cpu must be a whole number, not the text "fast"`},
		{"fraction", inTask("    resources {\n      cpu = 1.5\n    }"),
			`f.hcl:5:13: cpu must be a whole number, not the number 1.5`},
		{"overflow", inTask("    resources {\n      cpu = 99999999999999999999\n    }"),
			`f.hcl:5:13: cpu the number 99999999999999999999 is out of range: 64 bits`},
		{"bool", inTask("    leader = \"maybe\""), `f.hcl:4:14: leader must be true or false, not the text "maybe"`},
		{"duration unit", inTask("    kill_timeout = \"30\""),
			`f.hcl:4:20: kill_timeout the duration "30" has no unit; write "30s" for seconds`},
		{"duration", inTask("    kill_timeout = \"soon\""),
			`f.hcl:4:20: kill_timeout "soon" is not a duration; write one like "30s", "5m" or "1h30m"`},
		{"not a list", "job \"j\" {\n  datacenters = \"dc1\"\n}",
			`f.hcl:2:17: datacenters must be a list, not the text "dc1"; put it in brackets: [ … ]`},
		{"twice", inTask("    resources {\n    }\n    resources {\n    }"),
			`f.hcl:6:5: task "t" has the block "resources" twice, first on line 4; it may be there once`},
		{"map twice", inTask("    env {\n      A = 1\n    }\n    env = { B = 2 }"), `f.hcl:4:5: env is given twice`},
		{"attribute twice", inTask("    driver = \"a\"\n    driver = \"b\""), `f.hcl:5:5: attribute redefined`},
		{"no label", "job {\n}", `f.hcl:1:1: the block job needs one label: job "name" { … }`},
		{"empty label", "job \"\" {\n}", `f.hcl:1:5: the label of the block job is empty`},
		{"too many labels", "job \"a\" \"b\" {\n}", `f.hcl:1:9: the block job takes one label, not 2`},
		{"two jobs", "job \"a\" {\n}\njob \"b\" {\n}", "f.hcl:3:1: the file has two jobs; write one job per file"},
		{"no job", "locals {\n  a = 1\n}", "f.hcl: the file has no job"},
		{"unknown at top", "jobs \"a\" {\n}", `f.hcl:1:1: a job file has no block "jobs"; did you mean "job"?`},
		{"attribute at top", "x = 1\njob \"a\" {\n}", `f.hcl:1:1: a job file has no attribute "x" at its top`},
		{"same group", "job \"j\" {\n group \"g\" {\n }\n group \"g\" {\n }\n}",
			`f.hcl:4:2: the job has two groups named "g"; rename one`},
		{"same task", inGroup("  task \"t\" {\n  }\n  task \"t\" {\n  }"),
			`f.hcl:5:3: the group "g" has two tasks named "t"; rename one`},
		{"same port", inGroup("  network {\n   port \"a\" {\n   }\n   port \"a\" {\n   }\n  }"),
			`f.hcl:6:4: the network has two ports with the label "a"; rename one`},
		{"port number", inGroup("  network {\n   port \"a\" {\n    static = 70000\n   }\n  }"),
			`f.hcl:4:4: the port "a" has the static number 70000, which is not between 1 and 65535`},
		{"percent", "job \"j\" {\n spread {\n  attribute = \"${node.datacenter}\"\n  target \"a\" {\n   percent = " +
			"300\n  }\n }\n}", `f.hcl:5:14: percent the number 300 is out of range: not negative, 8 bits`},
		{"nested volume config",
			inGroup("  volume \"v\" {\n    type = \"host\"\n    config {\n      source = \"data\"\n    }\n  }"),
			`f.hcl:5:5: volume "v" has no block "config": write source beside type and read_only: volume "name" { type = "host"  source = "…" }`},
		{"volume without source", inGroup("  volume \"v\" {\n    type = \"host\"\n  }"),
			`f.hcl:3:3: the volume "v" has no source; name the volume, as in source = "data"`},
		{"volume type", inGroup("  volume \"v\" {\n    type = \"nfs\"\n    source = \"x\"\n  }"),
			`f.hcl:3:3: the volume "v" has the type "nfs"; there are csi and host`},
		{"volume twice",
			inGroup("  volume \"v\" {\n    type = \"host\"\n    source = \"x\"\n  }\n  volume \"v\" {\n    type = " +
				"\"host\"\n    source = \"x\"\n  }"), `f.hcl:7:3: the block volume "v" is there twice`},
		{"two operators",
			"job \"j\" {\n constraint {\n  attribute = \"${attr.x}\"\n  operator = \"=\"\n  regexp = \"a\"\n }\n}",
			`f.hcl:5:3: regexp sets operator and value; there is another operator already`},
		{"empty constraint", "job \"j\" {\n constraint {\n }\n}", `f.hcl:2:2: the block needs an attribute`},
		{"computing with what a node knows", inTask("    leader = attr.cpu.numcores > 4"),
			`f.hcl:4:14: attr.cpu.numcores is only known on the node`},
		{"unknown variable", inTask("    driver = var.drv"),
			`f.hcl:4:14: the file declares no variable "drv"; declare it with variable "drv" { … }`},
		{"unknown local", "locals {\n  port = 1\n}\n" + inTask("    driver = local.prt"),
			`f.hcl:7:14: the file has no local "prt"; did you mean "port"?`},
		{"unknown function", inTask("    driver = shout(\"x\")"),
			`f.hcl:4:14: there is no function "shout"; did you mean "sort"?`},
		{"file on a server", inTask("    driver = file(\"/etc/passwd\")"), `f.hcl:4:14: error in function call`},
		{"bad iterator", inGroup("  dynamic \"task\" {\n    for_each = 5\n    content {\n    }\n  }"),
			`f.hcl:4:16: for_each must be a list or a map`},
		{"dynamic without content", inGroup("  dynamic \"task\" {\n    for_each = [1]\n  }"),
			`f.hcl:3:3: the dynamic block "task" needs for_each and content`},
		{"local cycle", "locals {\n  a = local.b\n  b = local.a\n}\njob \"j\" {\n}",
			`f.hcl:2:3: local.a refers to itself: a → b → a`},
		{"default with reference", "variable \"a\" {\n  default = local.x\n}\njob \"j\" {\n}",
			`f.hcl:2:13: local.x is a reference; this file takes plain values only`},
		{"default that computes", "variable \"a\" {\n  default = \"${attr.x + 1}\"\n}\njob \"j\" {\n}",
			`f.hcl:2:16: attr.x is a reference; this file takes plain values only`},
		{"variable twice", "variable \"a\" {\n}\nvariable \"a\" {\n}\njob \"j\" {\n}",
			`f.hcl:3:1: the variable "a" is declared twice, first on line 1`},
		{"variable attribute", "variable \"a\" {\n  tipe = string\n}\njob \"j\" {\n}",
			`f.hcl:2:3: a variable has no attribute "tipe"`},
		{"default of the wrong type", "variable \"a\" {\n  type = number\n  default = \"x\"\n}\njob \"j\" {\n}",
			`f.hcl:3:13: the value of the variable "a" does not fit its type number`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: []byte(c.src), Strict: true})
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}

// Given blocks and attributes that are not built yet, when they are set to something, then they are refused by name
// and place; set to null or their documented default they are fine.
func TestWhatIsNotBuiltIsRefusedByNameAndPlace(t *testing.T) {
	refused := []wrong{
		{"connect transparent_proxy",
			inGroup("  service {\n    connect {\n      sidecar_service {\n        proxy {\n" +
				"          transparent_proxy {}\n        }\n      }\n    }\n  }"),
			`f.hcl:7:11: group "g": service "": connect transparent_proxy is not built yet: `},
		{"vault", inTask("    vault {\n      role = \"x\"\n    }"),
			`f.hcl:4:5: group "g": task "t": vault is not built yet: `},
		{"ui", "job \"j\" {\n  type = \"batch\"\n  ui {\n    description = \"d\"\n  }\n}",
			`f.hcl:3:3: ui is not built yet: `},
		{"stagger", inGroup("  update {\n    stagger = \"1m\"\n  }"),
			`f.hcl:4:5: group "g": update stagger is not built yet: `},
		{"job stagger", "job \"j\" {\n  update {\n    stagger = \"1m\"\n  }\n}",
			`f.hcl:3:5: update stagger is not built yet: `},
		{"sticky", inGroup("  volume \"v\" {\n    type = \"csi\"\n    source = \"x\"\n    sticky = true\n  }"),
			`f.hcl:6:5: group "g": volume "v": sticky is not built yet: `},
		{"vault pushed down", "job \"j\" {\n  vault {\n    role = \"x\"\n  }\n  task \"t\" {\n  }\n}",
			`f.hcl:2:3: group "t": task "t": vault is not built yet: `},
		{"consul pushed down", "job \"j\" {\n  consul {\n    namespace = \"x\"\n  }\n}",
			`f.hcl:2:3: consul namespace is not built yet: `},
		{"first rendering",
			inTask("    template {\n      change_script {\n        run_on_first_render = true\n      }\n    }"),
			`f.hcl:6:9: group "g": task "t": template change_script run_on_first_render is not built yet: `},
		{"identity of a service", inTask("    identity {\n      service_name = \"x\"\n    }"),
			`f.hcl:5:7: group "g": task "t": identity service_name is not built yet: `},
		{"second task", inGroup("  task \"a\" {\n  }\n  task \"b\" {\n    resources {\n      secrets = 2\n    }\n  }"),
			`f.hcl:7:7: group "g": task "b": resources secrets is not built yet: `},
	}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			_, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: []byte(c.src)})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	fine := []string{
		inGroup("  network {\n    mode = \"bridge\"\n    hostname = \"web\"\n    dns {\n      servers = " +
			"[\"192.0.2.1\"]\n    }\n    port \"a\" {\n      to = 80\n      host_network = \"lan\"\n    }\n  }"),
		inGroup("  network {\n    mode = \"none\"\n  }"),
		"job \"j\" {\n  region = null\n  all_at_once = false\n  node_pool = \"default\"\n}",
		inGroup("  network {\n    mode = \"host\"\n    hostname = \"\"\n    port \"a\" {\n      to = 0\n      " +
			"host_network = \"default\"\n    }\n  }"),
		inGroup("  update {\n    canary = 0\n    auto_revert = false\n    progress_deadline = \"10m\"\n    " +
			"healthy_deadline = \"5m\"\n    stagger = \"30s\"\n    health_check = \"checks\"\n  }"),
		inGroup("  update {\n    canary = 2\n    auto_revert = true\n    auto_promote = true\n    " +
			"progress_deadline = \"0s\"\n    health_check = \"manual\"\n  }"),
		inGroup("  migrate {\n    max_parallel = 1\n    health_check = \"checks\"\n    min_healthy_time = \"10s\"\n  " +
			"  healthy_deadline = \"5m\"\n  }"),
		inTask("    identity {\n    }"),
	}
	for _, src := range fine {
		if _, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: []byte(src)}); err != nil {
			t.Errorf("%s\nis refused: %v", src, err)
		}
	}
}

// Given a document with characters that the language does not have, when it is parsed, then they are the only findings,
// one on each line: what is read around them is none.
func TestStrangeCharactersAreTheOnlyFindings(t *testing.T) {
	for src, lines := range map[string][]string{
		"job 'a' {\n  type = 'service'\n}":    {"f.hcl:1:5: ", "f.hcl:2:10: "},
		"job “a” {\n  type = “service”\n}\n}": {"f.hcl:1:5: ", "f.hcl:2:10: "},
	} {
		_, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: []byte(src)})
		all := hclfile.Problems(err)
		if len(all) != len(lines) {
			t.Errorf("%q: %v", src, err)
			continue
		}
		for i, want := range lines {
			if got := all[i].String(); !strings.HasPrefix(got, want) {
				t.Errorf("%q: %s, want %s", src, got, want)
			}
		}
	}
}

// Given documents that are too large, too deep or too many, when they are parsed, then they are refused in words.
func TestDocumentsAreBounded(t *testing.T) {
	cases := []wrong{
		{"size", "# " + strings.Repeat("x", jobspec.MaxSource),
			"f.hcl: the document has 1048578 bytes, more than the 1048576 that are allowed"},
		{"nested blocks", strings.Repeat("a {\n", 100000),
			"f.hcl:65:3: the document is nested more than 64 levels deep"},
		{"nested lists", "x = " + strings.Repeat("[", 100000),
			"f.hcl:1:69: the document is nested more than 64 levels deep"},
		{"operators", "x = " + strings.Repeat("!", 100000) + "true",
			"f.hcl:1:10005: the document has more than 10000 operators"},
		{"many blocks", "job \"j\" {\n" + strings.Repeat("constraint {\nattribute = \"a\"\n}\n", 10001),
			"f.hcl:29999:1: the document has more than 10000 blocks"},
		{"dynamic blocks",
			"locals {\n l = range(1000)\n}\njob \"j\" {\n dynamic \"group\" {\n  for_each = local.l\n  iterator = " +
				"a\n  labels = [\"g${a.value}\"]\n  content {\n   dynamic \"constraint\" {\n    for_each = local.l\n " +
				"   content {\n     attribute = \"x\"\n    }\n   }\n  }\n }\n}",
			"f.hcl:10:4: the document has more than 10000 blocks"},
		{"laughs", "locals {\n a0 = \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\n" + doubling(30) + "}\njob \"j\" {\n}",
			"f.hcl:"},
		{"wide format", "locals {\n a = format(\"%999999999d\", 1)\n}\njob \"j\" {\n}",
			"f.hcl:2:6: error in function call"},
		{"product", "locals {\n a = setproduct(range(1000), range(1000))\n}\njob \"j\" {\n}",
			"f.hcl:2:6: error in function call"},
		{"JSON depth", "{\"Job\":{\"Meta\":" + strings.Repeat("[", 20000),
			"f.hcl:1:1: the document is nested more than 100 levels deep"},
		{"JSON twice", "{\"Job\":{\"ID\":\"a\",\"ID\":\"b\"}}", "f.hcl:1:1: the member Job.ID is there twice"},
		{"JSON unknown", "{\"ID\":\"a\",\"TaskGroups\":[{\"Name\":\"g\",\"Volume\":{\"x\":1}}]}",
			"f.hcl: a job has no member TaskGroups[0].Volume"},
		{"JSON not built",
			"{\"ID\":\"a\",\"TaskGroups\":[{\"Name\":\"g\",\"Services\":[{\"Name\":\"x\",\"Connect\":{\"SidecarService\":" +
				"{\"Proxy\":{\"TransparentProxy\":{}}}}}]}]}",
			`f.hcl: group "g": service "x": connect transparent_proxy is not built yet: `},
		{"JSON cut", "{\"ID\":\"a\",", "f.hcl:1:1: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			src := c.src
			if c.name == "many blocks" {
				src += "}\n"
			}
			_, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: []byte(src)})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %.300v\nwant %s", err, c.want)
			}
		})
	}
}

func doubling(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(" a" + itoa(i) + " = \"${local.a" + itoa(i-1) + "}${local.a" + itoa(i-1) + "}\"\n")
	}
	return b.String()
}

func itoa(n int) string {
	if n >= 10 {
		return itoa(n/10) + string(rune('0'+n%10))
	}
	return string(rune('0' + n))
}

// Given an error, when it is shown, then the line concerned is there with a mark under the column.
func TestErrorsShowTheLine(t *testing.T) {
	_, err := jobspec.Parse(jobspec.ParseConfig{Path: "f.hcl", Source: []byte(inTask("\tdriver = exec"))})
	problems := jobspec.Problems(err)
	if len(problems) != 1 {
		t.Fatalf("problems: %v", err)
	}
	if want := "  \tdriver = exec\n  \t         ^"; problems[0].Snippet != want {
		t.Errorf("got\n%s\nwant\n%s", problems[0].Snippet, want)
	}
	if problems[0].Line != 4 || problems[0].Column != 11 {
		t.Errorf("place %d:%d", problems[0].Line, problems[0].Column)
	}
}

// Given a job file with a value that cannot be and a block that is not built, when it is parsed by who leaves the
// latter to a server, then both are named: no server is asked of a file that has findings.
func TestAFileWithFindingsIsJudgedWhole(t *testing.T) {
	_, err := jobspec.Parse(jobspec.ParseConfig{Path: "j.hcl", AnyFeature: true, Source: []byte(`job "j" {
  group "g" {
    count = "many"
    network {
      port "a" { static = 70 }
      port "a" { static = 71 }
    }
    task "t" {
      driver = "exec"
      vault { role = "x" }
    }
  }
}`)})
	for _, want := range []string{"j.hcl:3", `two ports with the label "a"`, "vault is not built yet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
