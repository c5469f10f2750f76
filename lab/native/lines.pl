# How often words stand in a text, which lines have them, and 200,000 questions for a word's lines: `lines.pl FILE`.
use strict;
use warnings;

open(my $text, '<', $ARGV[0]) or die "$ARGV[0]: $!\n";
my (%count, %lines);
while (my $line = <$text>) {
    for my $word (split ' ', $line) {
        $count{$word}++;
        push @{$lines{$word}}, $.;
    }
}
my @words = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my ($drawn, $sum) = (1, 0);
for (1 .. 200_000) {
    $drawn = ($drawn * 16807) % 2147483647;
    my $word = $words[int(($drawn / 2147483647) ** 2 * @words)];
    $sum += $lines{$word}[$drawn % $count{$word}];
}
print "$sum\n";
