// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// countedClass is java/Counted.java, compiled by java/build: machines with a Java
// that runs brokers and compiles nothing can use it.
//
//go:embed java/Counted.class
var countedClass []byte

const countedMain = "Counted"

// MBeans are what to ask a broker for: one attribute of all MBeans with a name that matches, as
// "kafka.network:type=RequestMetrics,name=RequestsPerSec,*".
type MBeans struct{ Pattern, Attribute string }

// Count is one number of one MBean.
type Count struct {
	Attribute string
	Domain    string            // "kafka.network"
	Keys      map[string]string // "name": "RequestsPerSec", "request": "Fetch"
	Value     float64
}

// Counts asks a node of a cluster that was started with Counted. MBeans that do
// not exist, or not any more, are left out.
func (c *Cluster) Counts(ctx context.Context, id int, wants ...MBeans) ([]Count, error) {
	n := c.nodes[id-1]
	if n.counts == 0 {
		return nil, errors.New("this cluster was not started to be counted")
	}
	counts, err := askCounts(ctx, net.JoinHostPort(n.place.Host, fmt.Sprint(n.counts)), wants)
	if err != nil {
		return nil, fmt.Errorf("counts of node %d: %w", id, err)
	}
	return counts, nil
}

func askCounts(ctx context.Context, address string, wants []MBeans) ([]Count, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var asked strings.Builder
	for _, w := range wants {
		fmt.Fprintf(&asked, "%s %s\n", w.Attribute, w.Pattern)
	}
	if _, err := fmt.Fprintln(conn, asked.String()); err != nil {
		return nil, err
	}
	var counts []Count
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == "end" {
			return counts, nil
		}
		count, err := parseCount(lines.Text())
		if err != nil {
			return nil, err
		}
		counts = append(counts, count)
	}
	return nil, errors.Join(errors.New("the answer was cut short"), ctx.Err())
}

// parseCount reads a line "attribute value domain:key=value,key=value". Names that
// Kafka gives have no comma in a value.
func parseCount(line string) (Count, error) {
	attribute, rest, _ := strings.Cut(line, " ")
	number, name, _ := strings.Cut(rest, " ")
	value, err := strconv.ParseFloat(number, 64)
	domain, keys, named := strings.Cut(name, ":")
	if err != nil || !named {
		return Count{}, fmt.Errorf("%q is no count", line)
	}
	c := Count{Attribute: attribute, Domain: domain, Keys: map[string]string{}, Value: value}
	for pair := range strings.SplitSeq(keys, ",") {
		key, value, _ := strings.Cut(pair, "=")
		c.Keys[key] = value
	}
	return c, nil
}
