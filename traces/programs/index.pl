# An inverted index of made-up documents, queries with skew, and old documents taken out: a hash that grows, is read and shrinks.
use strict;
use warnings;

my $state = 7;
sub chance { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0] }

my (%index, @documents);
for my $number (0 .. 47_999) {
    my @words = map { "w" . int(chance(60_000) * chance(60_000) / 60_000) } 1 .. 60;
    push @documents, join(" ", @words);
    push @{ $index{$_} }, $number for @words;
}
my $found = 0;
for my $query (1 .. 120_000) {
    my $word = "w" . int(chance(60_000) * chance(60_000) * chance(1000) / 60_000 / 1000);
    my $list = $index{$word} or next;
    $found += length $documents[ $list->[ chance(scalar @$list) ] ];
}
for my $word (keys %index) {
    $index{$word} = [ grep { $_ >= 16_000 } @{ $index{$word} } ];
    delete $index{$word} unless @{ $index{$word} };
}
print "$found ", scalar(keys %index), "\n";
