// SPDX-License-Identifier: Apache-2.0

package berth

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// exceptions are where a word means what everybody means by it, or what Go, Kafka, HTTP, QEMU or an
// operating system mean. What NAMES explains as a word of its own needs none.
var exceptions = []exception{
	{words: "time", why: "a moment or a duration"},
	{words: "timeout", why: "the longest that one call may take; a drain's deadline ends nothing"},
	{words: "type", why: "of Go, of content (HTTP), of an XML element"},
	{words: "size", why: "a number of bytes, or of whatever is counted"},
	{words: "part", why: "a service.Part, or a piece of something longer; what a bench's process is for is its role"},
	{words: "limit", why: "the most that may be, as a quota; the last good rate of a ramp is its knee"},
	{words: "log", why: "a log of zap or of a program, and Kafka's; an agent's own is a journal"},
	{words: "offset", why: "of a Kafka record, or of a byte; a place in a list is a marker"},
	{words: "message", why: "a text for people; Kafka's name of a setting; QMP's and a child process's lines"},
	{words: "node", why: "a node of the API, of Kafka (its name for a broker), of NUMA, of a syntax tree"},
	{words: "tick", why: "a call at regular times, and time.Ticker; none of a conductor's turns"},
	{words: "lock", why: "a mutex, a locked file, Kafka's lock on a record of a queue"},
	{words: "retry", why: "one more try of a call or a request; one try to build an instance is an attempt"},
	{words: "plan", why: "what a decision wants done: queues/plan, offer.Plan; never a flavor"},
	{words: "lost", why: "no longer there; a partition about which nothing is decided is set aside"},
	{words: "dead", why: "what an operator declares of a host, or a process that has ended"},
	{words: "deleted", why: "a state of an instance; a partition about which nothing is decided is set aside"},
	{words: "disabled draining", why: "an operator's wishes; a host's own fault is a quarantine"},
	{words: "capacity", why: "whether hosts have room (OnNoCapacity); the last good rate of a ramp is its knee"},
	{words: "pending", why: "not yet carried out, written or seen; of a draining host it is called left"},
	{words: "target", why: "what a call or a fault is about; the floor of a bench is none"},
	{words: "poll", why: "a short poll, asking the API again, Client.PollFetches; a host waits on a queue"},
	{words: "replica", why: "Kafka's replicas of a partition; agents of one name are twins"},
	{words: "reject", why: "to set an input or a record aside (rejected), never the answer to a claim"},
	{words: "term", folders: []string{""}, names: []string{"term", "terms"}, why: "the words that NAMES explains"},
	{words: "term", folders: []string{"queues", "pkg/kafka/internal/fetch"},
		why: "the time for which a queue manager is elected; Kafka's epoch of a leader or of a fetch session"},
	{words: "term", folders: []string{"cmd/berth", "compute-agent", "pkg/cell"},
		names: []string{"Terms", "terms", "checkTerms", "TestTermsThatTheDriverCannotKeep", "TestTermsThatCannotBe"},
		why:   "what an operator lets a host offer (oversubscription, reserves)"},
	{words: "generation", folders: []string{"pkg/kafka/loop"}, why: "of a consumer group of Kafka"},
	{words: "heartbeat", why: "of a member of a Kafka group; what an agent says of its host is a beacon",
		folders: []string{"pkg/kafka/loop", "pkg/doctor", "pkg/lab/sim"}},
	{words: "suspended", folders: []string{"pkg/kafka/loop"}, why: "the whole loop, as NAMES says"},
	{words: "suspended", names: []string{"GuestSuspended"}, why: "a guest that its hypervisor has suspended"},
	{words: "watchdog", names: []string{"WatchdogFired"}, why: "the watchdog device of a machine"},
	{words: "compute", folders: []string{"pkg/compute", "pkg/wire/rest"}, why: "the package, and the service in the API"},
	{words: "hypervisor", why: "the software"},
	{words: "task", folders: []string{"compute-agent"}, why: "an agent's state for one instance, as NAMES says"},
	{words: "worker", folders: []string{"compute-agent"}, why: "a goroutine that makes calls: the worker slots"},
	{words: "server", folders: []string{
		"pkg/api", "pkg/cell", "pkg/client", "pkg/statusserver", "pkg/tlsfiles", "pkg/lab/bench/child"},
		why: "http.Server, an HTTP server that a client asks, the serving end of a pipe"},
	{words: "server", folders: []string{"deploy"}, why: "the server.properties of Kafka"},
	{words: "password", folders: []string{"pkg/cell", "pkg/celltest", "pkg/config", "pkg/kafka", "pkg/kafkatest"}, why: "SASL's"},
	{words: "hand", why: "to hand over, by hand, in hand",
		names: []string{"HandOver", "TestHandOver", "byHand", "TestByHand", "inHand", "hand",
			"TestReaderHandsOverInOrderFromTwoLeaders", "TestReaderHandsOverTheWholeRecord"}},
	{words: "schedule", folders: []string{"pkg/lab"}, why: "what happens when in a simulation or a bench"},
	{words: "schedule", folders: []string{"conductor/admit", "queues/ring"}, why: "to put into the agenda of timers"},
	{words: "scheduler", folders: []string{"cmd/berth/measure", "pkg/lab/bench"},
		why: "conductors in the classic experiment about schedulers"},
	{words: "assign", folders: []string{"compute-agent/fetch"}, why: "candidates to share sessions, not work to a host"},
	{words: "create spawn", why: "qemu-img create, CreateTopics, a process; an instance is booted",
		folders: []string{"compute-agent/hypervisor", "conductor/admit", "pkg/celltest", "pkg/kafka/access",
			"pkg/kafka/admin", "pkg/kafkatest", "pkg/localkafka",
			"queues/plan"}},
	{words: "create", why: "a token is created, and so is a group",
		names: []string{"createToken", "createTokenInput", "newTokenCreate", "CreateToken", "createGroup", "createGroupInput",
			"newGroupCreate", "CreateGroup"}},
	{words: "down", why: "not running, or a direction; a host that is not heard of is silent",
		names: []string{"down", "TestRingsAreNotWrittenDown", "TestLetGoAndNotWrittenDown"}},
	{words: "feature", why: "of the qcow2 format and of a Kafka cluster (kafka-features)",
		folders: []string{"compute-agent/hypervisor/image", "pkg/kafka/admin", "pkg/localkafka"}},
	{words: "namespace", folders: []string{"compute-agent/hypervisor/libvirt", "pkg/celltest"}, why: "of XML, of Linux"},
	{words: "notify", folders: []string{"cmd/berth"}, why: "sd_notify of systemd"},
	{words: "hook", folders: []string{"pkg/api", "queues"}, why: "a function that a test has called"},
	{words: "filter", folders: []string{"pkg/api", "pkg/client"}, why: "of a list in the API"},
	{words: "matrix", folders: []string{"conductor/admit"}, why: "a table of states and inputs"},
	{words: "scan", folders: []string{"pkg/api"}, why: "a linear search"},
	{words: "draw", folders: []string{"docs/graphs", "pkg/api", "pkg/wire", "queues/advise"},
		why: "a graph, and rapid's Draw of a test's input; hosts are sampled"},
	{words: "zone", folders: []string{"pkg/wire"}, why: "of time"},
}

// exception is where a word that NAMES rules out for one thing is right for another.
type exception struct {
	words   string   // space between them; "+" within one of several words
	folders []string // and below; empty: everywhere
	names   []string // the declared names, all of them if empty
	why     string
}

// allows says whether the exception holds for a word of a name that is declared in a folder.
func (e exception) allows(word, folder, name string) bool {
	return slices.Contains(strings.Fields(e.words), strings.ReplaceAll(word, " ", "+")) &&
		(len(e.folders) == 0 || within(folder, e.folders)) &&
		(len(e.names) == 0 || slices.Contains(e.names, name))
}

// TestNamesThatAreNot: no word that NAMES rules out ("is not") is in a declared name, but for the
// exceptions; and each exception is still needed.
func TestNamesThatAreNot(t *testing.T) {
	ruledOut := wordsRuledOut(t)
	needed := make([]bool, len(exceptions))
	eachFile(t, func(t *testing.T, f source) {
		if ast.IsGenerated(f.ast) {
			return
		}
		declared(f.ast, func(id *ast.Ident) {
			for _, word := range wordsIn(id.Name, ruledOut) {
				i := slices.IndexFunc(exceptions, func(e exception) bool { return e.allows(word, f.folder, id.Name) })
				if i < 0 {
					t.Errorf("%s: %s: NAMES says %q instead of %q", f.at(id), id.Name, ruledOut[word], word)
					continue
				}
				needed[i] = true
			}
		})
	})
	for i, e := range exceptions {
		if !needed[i] {
			t.Errorf("the exception for %q (%s) is needed by no name", e.words, e.why)
		}
		if e.why == "" {
			t.Errorf("the exception for %q has no reason", e.words)
		}
		for _, word := range strings.Fields(e.words) {
			if ruledOut[strings.ReplaceAll(word, "+", " ")] == "" {
				t.Errorf("the exception for %q: NAMES does not rule it out", word)
			}
		}
	}
}

// wordsRuledOut is what stands in the column "is not" of NAMES, with the word that is right. What
// stands in parentheses there explains; what is a term of its own is ruled out for one thing only.
func wordsRuledOut(t *testing.T) map[string]string {
	t.Helper()
	explained, bold := regexp.MustCompile(`\([^)]*\)`), regexp.MustCompile(`\*\*(.+?)\*\*`)
	var terms []string
	out := map[string]string{}
	for line := range strings.Lines(read(t, "docs/NAMES.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 3 || !strings.HasPrefix(line, "| **") {
			continue
		}
		for _, term := range bold.FindAllStringSubmatch(cells[0], -1) {
			terms = append(terms, term[1])
		}
		right := strings.ReplaceAll(strings.TrimSpace(cells[0]), "**", "")
		for _, word := range strings.Split(explained.ReplaceAllString(cells[2], ""), ",") {
			if word = strings.Join(strings.Fields(strings.ReplaceAll(word, "-", "")), " "); word != "" {
				out[singular(strings.ToLower(word))] = right
			}
		}
	}
	for _, term := range terms {
		delete(out, singular(term))
	}
	if len(out) < 80 {
		t.Fatalf("only %d words found in docs/NAMES.md", len(out))
	}
	return out
}

// wordsIn is each word of a list that is a whole word, or some of them in a row, of a name in camel
// case; in the plural, too.
func wordsIn(name string, list map[string]string) (found []string) {
	words := camelWords(name)
	for i, word := range words {
		if one := singular(word); list[one] != "" {
			found = append(found, one)
		}
		if i > 0 && list[words[i-1]+" "+word] != "" {
			found = append(found, words[i-1]+" "+word)
		}
	}
	return found
}

func singular(word string) string { return strings.TrimSuffix(word, "s") }

// camelWords cuts a name into its words, in lower case: HTTPServerAt has http, server and at.
func camelWords(name string) (words []string) {
	runes, begin := []rune(name), 0
	cut := func(end int) {
		if word := strings.Trim(string(runes[begin:end]), "_0123456789"); word != "" {
			words = append(words, strings.ToLower(word))
		}
		begin = end
	}
	for i, r := range runes {
		lower := func(i int) bool { return i >= 0 && i < len(runes) && unicode.IsLower(runes[i]) }
		afterCapitals := lower(i+1) && !(runes[i+1] == 's' && !lower(i+2)) // VMs is one word
		if r == '_' || unicode.IsUpper(r) && (lower(i-1) || afterCapitals) {
			cut(i)
		}
	}
	cut(len(runes))
	return words
}

// declared calls visit with each name that a file declares: of packages, types, functions, fields,
// parameters, constants, variables and labels.
func declared(f *ast.File, visit func(*ast.Ident)) {
	all := func(names []*ast.Ident) {
		for _, id := range names {
			visit(id)
		}
	}
	visit(f.Name)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			visit(n.Name)
		case *ast.TypeSpec:
			visit(n.Name)
		case *ast.ValueSpec:
			all(n.Names)
		case *ast.Field:
			all(n.Names)
		case *ast.LabeledStmt:
			visit(n.Label)
		case *ast.ImportSpec:
			if n.Name != nil {
				visit(n.Name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					if id, ok := x.(*ast.Ident); ok {
						visit(id)
					}
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				for _, x := range []ast.Expr{n.Key, n.Value} {
					if id, ok := x.(*ast.Ident); ok {
						visit(id)
					}
				}
			}
		}
		return true
	})
}
