package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
)

// rotateSteps are the steps of a replacement in words.
var rotateSteps = map[string]string{
	"ask": "answers", "accept": "has the new secret", "use": "uses it", "done": "forgets the old one in 90 s", "drop": "keeps the old one",
}

// rotate has the running node replace the mesh's secret, and shows the new one.
func (c *cli) rotate(ctx context.Context, cfg *config.Config, show func(context.Context, *config.Config) error) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	if _, err := c.joinCode(ctx, cfg); err != nil { // better no new secret than one whose code cannot be printed
		return err
	}
	body, err := n.call(ctx, http.MethodPost, "/api/secret/rotate", struct{}{})
	var no *refused
	if errors.As(err, &no) && no.status == http.StatusConflict {
		return coded{exitRefused, err}
	}
	if err != nil {
		return err
	}
	defer body.Close()
	done, err := c.followRotation(bufio.NewScanner(body))
	if err != nil {
		return err
	}
	if err := show(ctx, cfg); err != nil {
		return err
	}
	c.note("the new secret is in use by %s", strings.Join(printableAll(done.Members), ", "))
	if len(done.Away) > 0 {
		c.note("away, and in need of the new secret to come back: %s", strings.Join(printableAll(done.Away), ", "))
	}
	if len(done.Left) > 0 {
		c.note("switched off, and in need of the new secret if they are to come back: %s", strings.Join(printableAll(done.Left), ", "))
	}
	c.note("each keeps it in its state folder, and it beats the configuration: bring %s, or the file that %s_FILE names, up to date when it suits you ('viiwork join-code --secret' prints it)", cfg.Mesh.SecretEnv, cfg.Mesh.SecretEnv)
	return nil
}

// followRotation tells what happens until the end.
func (c *cli) followRotation(lines *bufio.Scanner) (done status.Rotated, err error) {
	for lines.Scan() {
		var line status.Rotation
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return done, fmt.Errorf("reading the node's answer: %w", err)
		}
		switch {
		case line.Done != nil:
			return *line.Done, nil
		case line.Error != "":
			return done, errors.New(printable(line.Error))
		case line.Step == "resume":
			c.note("finishing what %s began", printable(line.Member))
		case line.Fault != "":
			c.note("%s: %s: no: %s", printable(line.Member), printable(line.Step), printable(line.Fault))
		default:
			c.note("%s: %s", printable(line.Member), rotateSteps[line.Step])
		}
	}
	if err := lines.Err(); err != nil {
		return done, fmt.Errorf("reading the node's answer: %w", err)
	}
	return done, errors.New("the node ended before the replacement did: the mesh works on; run 'viiwork join-code --rotate' again on any node")
}

func printableAll(names []string) (all []string) {
	for _, n := range names {
		all = append(all, printable(n))
	}
	return all
}
